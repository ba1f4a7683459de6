// Folders as Hugging Face lays them out, made from golden models by the inverse
// of each layout, convert back to the same tensors and the same logits.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "engine/session.h"
#include "engine/test_golden.h"
#include "gguf/gguf.h"
#include "import/convert.h"
#include "import/test_hf_layout.h"
#include "import/test_sentencepiece.h"
#include "model/model.h"
#include "model/vocab_metadata.h"

namespace thermocline::importer {
namespace {

std::string TestData(const std::string& path) {
  return std::string(TC_TEST_DATA) + "/" + path;
}

// The golden files' vocabulary as a SentencePiece model.
std::string TokenizerModelOf(const gguf::File& file) {
  const text::Vocab vocab = *model::ReadVocab(file).value();
  std::string bytes;
  for (size_t i = 0; i < vocab.tokens.size(); ++i) {
    bytes += Piece(vocab.tokens[i], vocab.scores[i],
                   static_cast<uint64_t>(vocab.types[i]));
  }
  return bytes + BytesField(2, NumberField(3, 2)) +
         BytesField(3, NumberField(4, 0));
}

// A golden model with what it must compute.
struct GoldenFile {
  std::unique_ptr<const gguf::File> file;
  std::vector<text::TokenId> tokens;
  std::vector<float> logits;
};

GoldenFile OpenGolden(const std::string& name,
                      const std::string& folder = "golden") {
  GoldenFile golden;
  auto file = gguf::File::Open(TestData(folder + "/" + name));
  EXPECT_TRUE(file.has_value());
  golden.file = *std::move(file);
  for (Golden& each : ReadGoldens(TestData(folder))) {
    if (each.model != name) continue;
    golden.tokens = std::move(each.tokens);
    golden.logits = std::move(each.logits);
  }
  EXPECT_FALSE(golden.logits.empty()) << name;
  return golden;
}

// At every position, every neuron computed.
std::vector<float> LogitsOf(const std::string& path,
                            const std::vector<text::TokenId>& tokens) {
  const auto model = model::Model::Open(path, {.check_tensors = true});
  EXPECT_TRUE(model.has_value()) << model.error().message;
  if (!model) return {};
  engine::SessionOptions options;
  options.k_type = options.v_type = DType::kF32;
  options.num_threads = 1;
  options.ffn = engine::FfnMode::kDense;
  auto session = engine::Session::Create(*model, options);
  EXPECT_TRUE(session.has_value()) << session.error().message;
  if (!session) return {};
  std::vector<float> logits(tokens.size() * (*model)->config().vocab_size);
  const Status status =
      (*session)->Prompt(tokens, engine::LogitsOf::kAll, std::span(logits));
  EXPECT_TRUE(status.has_value()) << status.error().message;
  return logits;
}

class ConvertGoldenTest : public ::testing::Test {
 protected:
  void Convert(const GoldenFile& golden, const Json& config,
               const TestTensors& tensors) {
    folder_.Write("config.json", config.dump());
    folder_.Write("tokenizer.model", TokenizerModelOf(*golden.file));
    folder_.Write("model.safetensors", ToSafetensors(tensors));
    const Status status = ConvertHuggingFace(folder_.path(), Output(), {});
    ASSERT_TRUE(status.has_value()) << status.error().message;
  }

  std::string Output() const { return folder_ / "out.gguf"; }

  // The same tensors, whatever their order, and the same vocabulary.
  void ExpectSameFile(const gguf::File& expected) {
    const auto made = gguf::File::Open(Output()).value();
    EXPECT_EQ(made->tensors().size(), expected.tensors().size());
    for (const gguf::TensorInfo& info : expected.tensors()) {
      const gguf::TensorInfo* own = made->FindTensor(info.name);
      ASSERT_NE(own, nullptr) << info.name;
      EXPECT_EQ(own->dtype, info.dtype) << info.name;
      EXPECT_EQ(own->shape, info.shape) << info.name;
      ASSERT_EQ(own->num_bytes, info.num_bytes) << info.name;
      EXPECT_EQ(std::memcmp(own->data, info.data, info.num_bytes), 0)
          << info.name;
    }
    const text::Vocab vocab = *model::ReadVocab(*made).value();
    const text::Vocab theirs = *model::ReadVocab(expected).value();
    EXPECT_EQ(vocab.tokens, theirs.tokens);
    EXPECT_EQ(vocab.scores, theirs.scores);
    EXPECT_EQ(vocab.types, theirs.types);
  }

  // Normalised error of the converted model's logits.
  double Error(const GoldenFile& golden) {
    return Nmse(LogitsOf(Output(), golden.tokens), golden.logits);
  }

  void ExpectGolden(const GoldenFile& golden) {
    ExpectSameFile(*golden.file);
    EXPECT_LE(Error(golden), 5e-7);  // as tests/golden_test.cc
  }

  os::TestFolder folder_;
};

TEST_F(ConvertGoldenTest, Llama) {
  const GoldenFile golden = OpenGolden("llama-gqa-f16.gguf");
  Convert(golden, LlamaConfig(*golden.file, "llama"),
          LlamaTensors(*golden.file, "llama"));
  ExpectGolden(golden);
}

TEST_F(ConvertGoldenTest, Qwen2) {
  const GoldenFile golden = OpenGolden("qwen2-bias-f16.gguf");
  Convert(golden, LlamaConfig(*golden.file, "qwen2"),
          LlamaTensors(*golden.file, "qwen2"));
  ExpectGolden(golden);
}

TEST_F(ConvertGoldenTest, Mixtral) {
  const GoldenFile golden = OpenGolden("mixtral-8x2-f16.gguf");
  Convert(golden, LlamaConfig(*golden.file, "llama"),
          LlamaTensors(*golden.file, "llama"));
  ExpectGolden(golden);
}

// Of them the logits are those of unrounded activations.
TEST_F(ConvertGoldenTest, NewerArchitectures) {
  for (const auto& [name, arch] : {std::pair("qwen3-f16", "qwen3"),
                                   std::pair("qwen3-tied-yarn-f16", "qwen3"),
                                   std::pair("qwen3moe-f16", "qwen3moe"),
                                   std::pair("nemotron-f16", "nemotron"),
                                   std::pair("arcee-f16", "arcee")}) {
    SCOPED_TRACE(name);
    const GoldenFile golden =
        OpenGolden(std::string(name) + ".gguf", "golden-2026");
    Convert(golden, LlamaConfig(*golden.file, arch),
            LlamaTensors(*golden.file, arch));
    ExpectSameFile(*golden.file);
    EXPECT_LE(Error(golden), 1e-9);
  }
}

TEST_F(ConvertGoldenTest, FalconWithOneKvHead) {
  const GoldenFile golden = OpenGolden("falcon-mqa-f16.gguf");
  Convert(golden, FalconConfig(*golden.file, false),
          FalconTensors(*golden.file));
  ExpectGolden(golden);
}

TEST_F(ConvertGoldenTest, FalconWithGroupsAndTwoNorms) {
  const GoldenFile golden = OpenGolden("falcon-two-norm-f16.gguf");
  Convert(golden, FalconConfig(*golden.file, true),
          FalconTensors(*golden.file));
  ExpectGolden(golden);
}

// PowerInfer's files hold the same models with predictors, which a dense run
// does not ask. Its sums run in another order.
TEST_F(ConvertGoldenTest, BambooAsPowerInferHasIt) {
  GoldenFile golden;
  const std::string path =
      TestData("golden-powerinfer/bamboo-f16.powerinfer.gguf");
  golden.file = gguf::File::Open(path).value();
  golden.tokens = {1, 17, 200, 41, 3, 250, 99, 5};
  Convert(golden, LlamaConfig(*golden.file, "bamboo"),
          LlamaTensors(*golden.file, "bamboo"));
  golden.logits = LogitsOf(path, golden.tokens);
  EXPECT_LE(Error(golden), 1e-9);
}

// It runs OPT with an epsilon of 0, whatever the file says.
TEST_F(ConvertGoldenTest, OptAsPowerInferHasIt) {
  GoldenFile golden;
  const std::string path =
      TestData("golden-powerinfer/opt-f16.powerinfer.gguf");
  golden.file = gguf::File::Open(path).value();
  golden.tokens = {1, 17, 200, 41, 3, 250, 99, 5};
  Convert(golden, OptConfig(*golden.file), OptTensors(*golden.file));
  golden.logits = LogitsOf(path, golden.tokens);
  EXPECT_LE(Error(golden), 1e-6);
}

// What a converter might do to q and k instead: the logits tell each of them.
TEST_F(ConvertGoldenTest, KnownWrongOrdersOfRotatingRowsShow) {
  const GoldenFile golden = OpenGolden("llama-gqa-f16.gguf");
  const Sizes sizes = SizesOf(*golden.file, "llama");
  ASSERT_LT(sizes.kv_heads, sizes.heads);
  const size_t head = sizes.head_width;
  // The width that k's heads seem to have with the number of q's.
  const size_t k_head = head * sizes.kv_heads / sizes.heads;
  // What turns the right folder into one from which the right conversion makes
  // what a wrong one makes of the right folder.
  struct Wrong {
    const char* what;
    const char* suffix;
    std::function<TestTensor(const TestTensor&)> change;
  };
  const Wrong wrongs[] = {
      {"q as it is", "q_proj.weight",
       [&](const TestTensor& t) { return ToHalves(t, head); }},
      {"k as it is", "k_proj.weight",
       [&](const TestTensor& t) { return ToHalves(t, head); }},
      {"q permuted twice", "q_proj.weight",
       [&](const TestTensor& t) { return ToPairs(t, head); }},
      {"k permuted twice", "k_proj.weight",
       [&](const TestTensor& t) { return ToPairs(t, head); }},
      {"k permuted with the number of q's heads", "k_proj.weight",
       [&](const TestTensor& t) { return ToHalves(ToPairs(t, k_head), head); }},
  };
  for (const Wrong& wrong : wrongs) {
    TestTensors tensors = LlamaTensors(*golden.file, "llama");
    for (auto& [name, tensor] : tensors) {
      if (name.ends_with(wrong.suffix)) tensor = wrong.change(tensor);
    }
    Convert(golden, LlamaConfig(*golden.file, "llama"), tensors);
    const double error = Error(golden);
    EXPECT_GT(error, 1e-4) << wrong.what;  // 5e-7 where it is right
    RecordProperty(wrong.what, std::to_string(error));
  }
}

}  // namespace
}  // namespace thermocline::importer

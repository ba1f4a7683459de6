#include "import/convert.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "gguf/gguf.h"
#include "import/hf_test_folder.h"
#include "import/tensor_plan.h"
#include "model/model.h"
#include "tensor/codec.h"

namespace thermocline::importer {
namespace {

namespace fs = std::filesystem;

std::vector<float> Elements(const gguf::File& file, const std::string& name) {
  const TensorView view = file.Tensor(name);
  if (!view) return {};
  std::vector<float> values(view.shape.num_elems());
  DequantizeRow(view.dtype, view.data, values);
  return values;
}

class ConvertTest : public ::testing::Test {
 protected:
  std::string Output() const { return folder_ / "out.gguf"; }

  Status Convert(DType dtype = DType::kF32) {
    return ConvertHuggingFace(folder_.path(), Output(), {.dtype = dtype});
  }

  std::unique_ptr<const gguf::File> ConvertAndOpen(DType dtype = DType::kF32) {
    const Status status = Convert(dtype);
    EXPECT_TRUE(status.has_value()) << (status ? "" : status.error().message);
    auto file = gguf::File::Open(Output());
    EXPECT_TRUE(file.has_value());
    return file ? std::move(file).value() : nullptr;
  }

  // The conversion fails, says `part`, and leaves no file.
  void ExpectError(ErrorCode code, const std::string& part) {
    const Status status = Convert();
    ASSERT_FALSE(status.has_value()) << "expected: " << part;
    EXPECT_EQ(status.error().code, code) << status.error().message;
    EXPECT_NE(status.error().message.find(part), std::string::npos)
        << status.error().message;
    EXPECT_FALSE(fs::exists(Output()));
  }

  os::TestFolder folder_;
  TestTensors weights_ = TestWeights();
};

constexpr std::pair<const char*, const char*> kPlainNames[] = {
    {"input_layernorm.weight", "attn_norm.weight"},
    {"post_attention_layernorm.weight", "ffn_norm.weight"},
    {"self_attn.v_proj.weight", "attn_v.weight"},
    {"self_attn.o_proj.weight", "attn_output.weight"},
    {"mlp.gate_proj.weight", "ffn_gate.weight"},
    {"mlp.up_proj.weight", "ffn_up.weight"},
    {"mlp.down_proj.weight", "ffn_down.weight"},
};

TEST_F(ConvertTest, EveryElementArrives) {
  WriteTestModel(folder_, TestConfig(), weights_);
  const auto file = ConvertAndOpen();
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(Elements(*file, "token_embd.weight"),
            weights_["model.embed_tokens.weight"].values);
  EXPECT_EQ(Elements(*file, "output_norm.weight"),
            weights_["model.norm.weight"].values);
  EXPECT_EQ(Elements(*file, "output.weight"),
            weights_["lm_head.weight"].values);
  for (const std::string layer : {"0.", "1."}) {
    for (const auto& [hf, gguf] : kPlainNames) {
      EXPECT_EQ(Elements(*file, "blk." + layer + gguf),
                weights_["model.layers." + layer + hf].values)
          << gguf;
    }
  }
  EXPECT_EQ(file->tensors().size(), 21u);
  EXPECT_EQ(file->Tensor("blk.0.ffn_up.weight").shape,
            (Shape{{64, 96, 1, 1}, 2}));
}

// For head h, pair j, half s: row h*hd + 2j + s of the file is row
// h*hd + s*hd/2 + j of the checkpoint.
TEST_F(ConvertTest, RotatingRowsOfLlamaAreInterleaved) {
  WriteTestModel(folder_, TestConfig(), weights_);
  const auto file = ConvertAndOpen();
  ASSERT_NE(file, nullptr);
  constexpr size_t kHead = 16;
  constexpr size_t kColumns = 64;
  for (const auto& [hf, gguf, heads] :
       {std::tuple("q_proj", "attn_q", size_t{4}),
        std::tuple("k_proj", "attn_k", size_t{2})}) {
    const auto& source =
        weights_[std::string("model.layers.1.self_attn.") + hf + ".weight"]
            .values;
    const auto stored =
        Elements(*file, std::string("blk.1.") + gguf + ".weight");
    ASSERT_EQ(stored.size(), heads * kHead * kColumns);
    EXPECT_NE(stored, source);
    for (size_t h = 0; h < heads; ++h) {
      for (size_t j = 0; j < kHead / 2; ++j) {
        for (size_t s = 0; s < 2; ++s) {
          const size_t to = (h * kHead + 2 * j + s) * kColumns;
          const size_t from = (h * kHead + s * kHead / 2 + j) * kColumns;
          for (size_t c = 0; c < kColumns; ++c) {
            ASSERT_EQ(stored[to + c], source[from + c])
                << gguf << " head " << h << " pair " << j << " half " << s;
          }
        }
      }
    }
  }
}

TEST_F(ConvertTest, BiasesOfLlamaAreInterleavedToo) {
  weights_ = TestWeights(true);
  WriteTestModel(folder_, TestConfig(), weights_);
  const auto file = ConvertAndOpen();
  ASSERT_NE(file, nullptr);
  const auto& source = weights_["model.layers.0.self_attn.k_proj.bias"].values;
  const auto stored = Elements(*file, "blk.0.attn_k.bias");
  ASSERT_EQ(stored.size(), 32u);
  EXPECT_EQ(stored[0], source[0]);
  EXPECT_EQ(stored[1], source[8]);
  EXPECT_EQ(stored[2], source[1]);
  EXPECT_EQ(stored[31], source[31]);
  EXPECT_EQ(stored[17], source[24]);
  EXPECT_EQ(Elements(*file, "blk.0.attn_v.bias"),
            weights_["model.layers.0.self_attn.v_proj.bias"].values);
}

TEST_F(ConvertTest, Qwen2KeepsItsRowOrder) {
  weights_ = TestWeights(true);
  Json config = TestConfig();
  config["architectures"] = {"Qwen2ForCausalLM"};
  WriteTestModel(folder_, config, weights_);
  const auto file = ConvertAndOpen();
  ASSERT_NE(file, nullptr);
  for (const std::string kind : {".weight", ".bias"}) {
    EXPECT_EQ(Elements(*file, "blk.1.attn_q" + kind),
              weights_["model.layers.1.self_attn.q_proj" + kind].values);
    EXPECT_EQ(Elements(*file, "blk.1.attn_k" + kind),
              weights_["model.layers.1.self_attn.k_proj" + kind].values);
  }
  EXPECT_EQ(file->Int("qwen2.block_count").value(), 2);
}

TEST_F(ConvertTest, Metadata) {
  WriteTestModel(folder_, TestConfig(), weights_);
  const auto file = ConvertAndOpen(DType::kF16);
  ASSERT_NE(file, nullptr);
  const auto text = [&](const char* key) {
    return file->String(key).value().value_or("absent");
  };
  const auto number = [&](const char* key) {
    return file->Int(key).value().value_or(-1);
  };
  EXPECT_EQ(text("general.architecture"), "llama");
  EXPECT_EQ(text("general.name"), fs::path(folder_.path()).filename().string());
  EXPECT_EQ(number("general.file_type"), 1);
  EXPECT_EQ(number("general.quantization_version"), 2);
  EXPECT_EQ(number("llama.context_length"), 128);
  EXPECT_EQ(number("llama.embedding_length"), 64);
  EXPECT_EQ(number("llama.feed_forward_length"), 96);
  EXPECT_EQ(number("llama.attention.head_count"), 4);
  EXPECT_EQ(number("llama.attention.head_count_kv"), 2);
  EXPECT_EQ(number("llama.attention.key_length"), 16);
  EXPECT_EQ(number("llama.rope.dimension_count"), 16);
  EXPECT_EQ(number("llama.vocab_size"), 12);
  EXPECT_EQ(file->Float("llama.rope.freq_base").value(), 50000.0);
  EXPECT_EQ(text("thermocline.ffn.activation"), "absent");  // as usual
  EXPECT_EQ(text("tokenizer.ggml.pre"), "gpt-2");
  EXPECT_EQ(text("tokenizer.chat_template"), "{{ messages }}");
  EXPECT_EQ(number("tokenizer.ggml.bos_token_id"), 1);
}

TEST_F(ConvertTest, TheResultOpensAsAModel) {
  WriteTestModel(folder_, TestConfig(), weights_);
  for (const DType dtype :
       {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0}) {
    ASSERT_TRUE(Convert(dtype).has_value());
    const auto model = model::Model::Open(Output(), {.check_tensors = true});
    ASSERT_TRUE(model.has_value()) << model.error().message;
    EXPECT_EQ((*model)->weights().layers[1].ffn.down.dtype, dtype);
    EXPECT_EQ((*model)->weights().layers[1].ffn.norm.dtype, DType::kF32);
    EXPECT_FALSE((*model)->weights().tied);
    ASSERT_NE((*model)->tokenizer(), nullptr);
    EXPECT_EQ((*model)->tokenizer()->Encode("ab abc", {}).value(),
              (std::vector<text::TokenId>{1, 7, 8, 5}));
    EXPECT_EQ((*model)->tokenizer()->vocab().tokens[11], "[PAD11]");
  }
}

TEST_F(ConvertTest, RowsThatDoNotDivideFallBackToF16) {
  Json config = TestConfig();
  config["intermediate_size"] = 95;
  Random random(2);
  for (const std::string layer :
       {"model.layers.0.mlp.", "model.layers.1.mlp."}) {
    weights_[layer + "gate_proj.weight"] =
        RandomTensor("F16", {95, 64}, random);
    weights_[layer + "up_proj.weight"] = RandomTensor("F16", {95, 64}, random);
    weights_[layer + "down_proj.weight"] =
        RandomTensor("F16", {64, 95}, random);
  }
  WriteTestModel(folder_, config, weights_);
  const auto file = ConvertAndOpen(DType::kQ4_0);
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->Tensor("blk.0.ffn_up.weight").dtype, DType::kQ4_0);
  EXPECT_EQ(file->Tensor("blk.0.ffn_down.weight").dtype, DType::kF16);
  EXPECT_EQ(Elements(*file, "blk.0.ffn_down.weight"),
            weights_["model.layers.0.mlp.down_proj.weight"].values);
}

TEST_F(ConvertTest, ATiedHeadIsNotWritten) {
  Json config = TestConfig();
  config["tie_word_embeddings"] = true;
  WriteTestModel(folder_, config, weights_);  // with a copy of the head
  EXPECT_FALSE(ConvertAndOpen()->Tensor("output.weight"));
  weights_.erase("lm_head.weight");
  WriteTestModel(folder_, config, weights_);
  EXPECT_FALSE(ConvertAndOpen()->Tensor("output.weight"));
}

TEST_F(ConvertTest, Llama3ScalingBecomesATensor) {
  Json config = TestConfig();
  config["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", 8.0},
                            {"low_freq_factor", 1.0},
                            {"high_freq_factor", 4.0},
                            {"original_max_position_embeddings", 64}};
  WriteTestModel(folder_, config, weights_);
  const auto factors = Elements(*ConvertAndOpen(), "rope_freqs.weight");
  ASSERT_EQ(factors.size(), 8u);
  EXPECT_EQ(factors.front(), 1.0f);
  EXPECT_EQ(factors.back(), 8.0f);
}

TEST_F(ConvertTest, ShardsGiveTheSameFile) {
  WriteTestModel(folder_, TestConfig(), weights_);
  ASSERT_TRUE(Convert().has_value());
  const std::string whole = os::TestFolder::Read(Output());
  TestTensors halves[2];
  Json map;
  size_t i = 0;
  for (const auto& [name, tensor] : weights_) {
    halves[i % 2][name] = tensor;
    map[name] = "part-" + std::to_string(i % 2) + ".safetensors";
    ++i;
  }
  fs::remove(folder_ / "model.safetensors");
  folder_.Write("part-0.safetensors", ToSafetensors(halves[0]));
  folder_.Write("part-1.safetensors", ToSafetensors(halves[1]));
  folder_.Write("model.safetensors.index.json",
                Json{{"weight_map", map}}.dump());
  ASSERT_TRUE(Convert().has_value());
  EXPECT_EQ(os::TestFolder::Read(Output()), whole);
}

TEST_F(ConvertTest, ProgressReachesTheEnd) {
  WriteTestModel(folder_, TestConfig(), weights_);
  uint64_t last = 0;
  uint64_t total = 0;
  const Status status = ConvertHuggingFace(
      folder_.path(), Output(),
      {.dtype = DType::kF16,
       .progress = [&](std::string_view, uint64_t done, uint64_t all) {
         EXPECT_LE(last, done);
         EXPECT_LE(done, all);
         last = done;
         total = all;
       }});
  ASSERT_TRUE(status.has_value());
  EXPECT_GT(total, 0u);
  EXPECT_EQ(last, total);
}

TEST_F(ConvertTest, ChatTemplateOfItsOwnFileCounts) {
  WriteTestModel(folder_, TestConfig(), weights_);
  folder_.Write("chat_template.jinja", "from the file");
  EXPECT_EQ(ConvertAndOpen()->String("tokenizer.chat_template").value(),
            "from the file");
}

TEST_F(ConvertTest, NamedChatTemplates) {
  WriteTestModel(folder_, TestConfig(), weights_);
  Json config = TestTokenizerConfig();
  config["chat_template"] = {{{"name", "tool_use"}, {"template", "T"}},
                             {{"name", "default"}, {"template", "D"}}};
  folder_.Write("tokenizer_config.json", config.dump());
  const auto file = ConvertAndOpen();
  EXPECT_EQ(file->String("tokenizer.chat_template").value(), "D");
  EXPECT_EQ(file->String("tokenizer.chat_template.tool_use").value(), "T");
}

TEST_F(ConvertTest, GenerationConfigFillsIn) {
  Json config = TestConfig();
  config.erase("eos_token_id");
  WriteTestModel(folder_, config, weights_);
  folder_.Write("tokenizer_config.json", "{}");
  folder_.Write("generation_config.json",
                R"({"bos_token_id": 3, "eos_token_id": [2, 5]})");
  const auto file = ConvertAndOpen();
  EXPECT_EQ(file->Int("tokenizer.ggml.bos_token_id").value(), 1);
  EXPECT_EQ(file->Int("tokenizer.ggml.eos_token_id").value(), 2);
}

TEST_F(ConvertTest, MissingFilesAreNamed) {
  const Status missing = ConvertHuggingFace(folder_ / "none", Output(), {});
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  ExpectError(ErrorCode::kNotFound, "config.json");
  WriteTestModel(folder_, TestConfig(), weights_);
  fs::remove(folder_ / "model.safetensors");
  ExpectError(ErrorCode::kNotFound, "model.safetensors");
  WriteTestModel(folder_, TestConfig(), weights_);
  fs::remove(folder_ / "tokenizer.json");
  ExpectError(ErrorCode::kNotFound, "tokenizer.json");
  folder_.Write("tokenizer.model", "x");
  ExpectError(ErrorCode::kCorrupt, "tokenizer.model");
}

TEST_F(ConvertTest, WrongTypesAreRefused) {
  WriteTestModel(folder_, TestConfig(), weights_);
  const Status status = Convert(DType::kQ4_K);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(status.error().message.find("Q4_K"), std::string::npos);
}

TEST_F(ConvertTest, NumbersThatCannotBeStoredAreRefused) {
  weights_["model.layers.0.mlp.up_proj.weight"].dtype = "F32";
  auto& values = weights_["model.layers.0.mlp.up_proj.weight"].values;
  values[100] = 1e6f;
  WriteTestModel(folder_, TestConfig(), weights_);
  const Status half = Convert(DType::kF16);
  ASSERT_FALSE(half.has_value());
  EXPECT_NE(half.error().message.find("up_proj"), std::string::npos);
  EXPECT_FALSE(fs::exists(Output()));
  EXPECT_TRUE(Convert(DType::kBF16).has_value());
  fs::remove(Output());
  values[100] = std::numeric_limits<float>::quiet_NaN();
  WriteTestModel(folder_, TestConfig(), weights_);
  ExpectError(ErrorCode::kCorrupt, "up_proj");
}

// Every prefix of the weights is an error, never a crash.
TEST_F(ConvertTest, CutOffWeights) {
  WriteTestModel(folder_, TestConfig(), weights_);
  const std::string whole = os::TestFolder::Read(folder_ / "model.safetensors");
  for (size_t size = 0; size < whole.size(); size += 1 + size / 16) {
    folder_.Write("model.safetensors", whole.substr(0, size));
    const Status status = Convert();
    ASSERT_FALSE(status.has_value()) << size;
    EXPECT_EQ(status.error().code, ErrorCode::kCorrupt);
  }
  EXPECT_FALSE(fs::exists(Output()));
}

TEST_F(ConvertTest, AnInterruptLeavesNothingBehind) {
  WriteTestModel(folder_, TestConfig(), weights_);
  const std::atomic<bool> cancel = true;
  const Status status =
      ConvertHuggingFace(folder_.path(), Output(), {.cancel = &cancel});
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kCancelled);
  EXPECT_FALSE(fs::exists(Output()));
}

// The model in models/ is what this program makes of the training's output.
TEST(DemoModelTest, IsReproducedByteForByte) {
  const std::string source =
      std::string(TC_SOURCE_DIR) + "/../shared/fixtures/models/demo";
  const std::string kept = std::string(TC_SOURCE_DIR) +
                           "/models/demo/thermocline-demo-8.8m-f16.gguf";
  if (!fs::exists(source + "/config.json")) {
    GTEST_SKIP() << "needs fixtures/models/demo/config.json";
  }
  const os::TestFolder folder;
  const Status status = ConvertHuggingFace(source, folder / "demo.gguf", {});
  ASSERT_TRUE(status.has_value()) << status.error().message;
  ASSERT_TRUE(model::Model::Open(folder / "demo.gguf").has_value());
  EXPECT_TRUE(os::TestFolder::Read(folder / "demo.gguf") ==
              os::TestFolder::Read(kept));
}

// Its tokenizer gives the ids that its training saw.
TEST(DemoModelTest, TokenizesAsInTraining) {
  const std::string root = TC_SOURCE_DIR;
  const auto model =
      model::Model::Open(root + "/models/demo/thermocline-demo-8.8m-f16.gguf");
  ASSERT_TRUE(model.has_value()) << model.error().message;
  const Json reference =
      Json::parse(os::TestFolder::Read(TC_TEST_DATA "/demo/reference.json"));
  const auto expected =
      reference["valid.txt"]["first_ids"].get<std::vector<text::TokenId>>();
  const auto ids =
      (*model)
          ->tokenizer()
          ->Encode(os::TestFolder::Read(TC_TEST_DATA "/demo/valid.txt"),
                   {.add_special = true, .parse_special = true})
          .value();
  EXPECT_EQ(ids.size(), reference["valid.txt"]["tokens"].get<size_t>());
  ASSERT_GE(ids.size(), expected.size());
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), ids.begin()));
}

TEST_F(ConvertTest, AFailureToWriteNamesTheOutputOnly) {
  WriteTestModel(folder_, TestConfig(), weights_);
  const Status status =
      ConvertHuggingFace(folder_.path(), "/dev/full", {.dtype = DType::kF16});
  ASSERT_FALSE(status.has_value());
  EXPECT_TRUE(status.error().message.starts_with("/dev/full: "))
      << status.error().message;
}

}  // namespace
}  // namespace thermocline::importer

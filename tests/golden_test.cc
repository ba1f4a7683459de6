// Logits and texts that independent engines computed: llama.cpp's logits of
// tiny random models, and what the models kept here are known to write.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "decode/generate.h"
#include "engine/session.h"
#include "engine/test_golden.h"
#include "kernels/isa.h"
#include "kernels/kernels.h"
#include "model/model.h"

namespace thermocline {
namespace {

using Tokens = std::vector<text::TokenId>;

// llama.cpp rounds activations to F16 for F16 weights (an independent pass in
// double precision differs by up to 1.9e-7), to 8 bits for quantised ones.
constexpr double kFloatNmse = 5e-7;
constexpr double kQuantisedNmse = 1e-3;
// The logits of golden-2026 are those of the same weights in F32, so that
// nothing is rounded there (a second engine differs by up to 1.4e-13), but
// here where many tokens are multiplied in halves (kernels/cpu/amx_matmul.h).
constexpr char kExactFolder[] = "golden-2026/";
constexpr double kExactNmse = 1e-12;
constexpr double kHalvesNmse = 1e-9;

std::string TestData(const std::string& path) {
  return std::string(TC_TEST_DATA) + "/" + path;
}

nlohmann::json ReadJson(const std::string& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
}

std::unique_ptr<engine::Session> OpenSession(
    const std::shared_ptr<const model::Model>& model, kernels::Isa isa) {
  engine::SessionOptions options;
  options.isa = isa;
  options.num_threads = 2;
  options.k_type = options.v_type = DType::kF32;
  auto session = engine::Session::Create(model, options);
  EXPECT_TRUE(session.has_value()) << session.error().message;
  return session.has_value() ? *std::move(session) : nullptr;
}

std::vector<float> LogitsOf(engine::Session& session, const Tokens& tokens,
                            size_t batch) {
  const auto vocab_size =
      static_cast<size_t>(session.model().config().vocab_size);
  std::vector<float> logits(tokens.size() * vocab_size);
  for (size_t begin = 0; begin < tokens.size(); begin += batch) {
    const size_t count = std::min(batch, tokens.size() - begin);
    const Status status = session.Decode(
        std::span(tokens).subspan(begin, count),
        batch == 1 ? engine::Phase::kGenerate : engine::Phase::kPrompt,
        engine::LogitsOf::kAll,
        std::span(logits).subspan(begin * vocab_size, count * vocab_size));
    EXPECT_TRUE(status.has_value()) << status.error().message;
  }
  return logits;
}

struct GoldenCase {
  std::string folder;
  std::string model;
  kernels::Isa isa;
};

std::vector<GoldenCase> AllCases() {
  std::vector<GoldenCase> cases;
  for (const std::string folder : {"golden/", kExactFolder}) {
    for (const auto& entry : ReadJson(TestData(folder + "manifest.json"))) {
      for (const kernels::Isa isa : kernels::SupportedIsas()) {
        cases.push_back({folder, entry["model"].get<std::string>(), isa});
      }
    }
  }
  return cases;
}

double ToleranceOf(const GoldenCase& golden, size_t batch) {
  if (!golden.model.ends_with("f16.gguf")) return kQuantisedNmse;
  if (golden.folder != kExactFolder) return kFloatNmse;
  const kernels::KernelTable& kernels = kernels::KernelsFor(golden.isa);
  return batch > 1 && kernels.batch_of(DType::kF16) != nullptr ? kHalvesNmse
                                                               : kExactNmse;
}

std::string NameOfCase(const ::testing::TestParamInfo<GoldenCase>& param_info) {
  std::string name = param_info.param.model + "_" +
                     std::string(kernels::NameOf(param_info.param.isa));
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

class Golden : public ::testing::TestWithParam<GoldenCase> {};

TEST_P(Golden, LogitsInOneBatchAndOneByOne) {
  const GoldenCase& golden = GetParam();
  nlohmann::json entry;
  for (const auto& each : ReadJson(TestData(golden.folder + "manifest.json"))) {
    if (each["model"] == golden.model) entry = each;
  }
  const auto tokens = entry["tokens"].get<Tokens>();
  const auto expected =
      ReadFloats(TestData(golden.folder + entry["logits"].get<std::string>()));
  const auto vocab_size = entry["shape"][1].get<size_t>();
  ASSERT_EQ(expected.size(), tokens.size() * vocab_size);
  const auto model = model::Model::Open(TestData(golden.folder + golden.model));
  ASSERT_TRUE(model.has_value()) << model.error().message;
  ASSERT_EQ((*model)->config().vocab_size, vocab_size);

  for (const size_t batch : {tokens.size(), size_t{1}}) {
    const auto session = OpenSession(*model, golden.isa);
    ASSERT_NE(session, nullptr);
    const auto logits = LogitsOf(*session, tokens, batch);
    const double nmse = Nmse(logits, expected);
    EXPECT_LE(nmse, ToleranceOf(golden, batch)) << "batch of " << batch;
    RecordProperty("nmse", std::to_string(nmse * 1e12) + "e-12");
    for (size_t t = 0; t < tokens.size(); ++t) {
      ExpectSameChoice(std::span(logits).subspan(t * vocab_size, vocab_size),
                       std::span(expected).subspan(t * vocab_size, vocab_size),
                       t);
    }
  }
}

TEST(GoldenFiles, AreAllRun) {
  size_t num_files = 0;
  const auto cases = AllCases();
  for (const char* folder : {"golden/", kExactFolder}) {
    for (const auto& entry :
         std::filesystem::directory_iterator(TestData(folder))) {
      if (entry.path().extension() != ".gguf") continue;
      ++num_files;
      EXPECT_TRUE(std::ranges::any_of(cases, [&](const GoldenCase& golden) {
        return golden.model == entry.path().filename();
      })) << entry.path();
    }
  }
  EXPECT_EQ(num_files, 19u);
}

INSTANTIATE_TEST_SUITE_P(Files, Golden, ::testing::ValuesIn(AllCases()),
                         NameOfCase);

// The text that the model writes behind `prompt` at temperature 0.
std::optional<std::string> GreedyText(
    const std::shared_ptr<const model::Model>& model, const std::string& prompt,
    const text::EncodeOptions& encode, int64_t max_tokens) {
  const auto tokens = model->tokenizer()->Encode(prompt, encode);
  const auto session = OpenSession(model, kernels::BestIsa());
  if (!tokens.has_value() || session == nullptr) return std::nullopt;
  decode::GenerateOptions options;
  options.max_tokens = max_tokens;
  options.sampler.temperature = 0.0f;
  std::string text;
  const auto report =
      decode::Generate(*session, *tokens, options, [&](std::string_view piece) {
        text += piece;
        return true;
      });
  EXPECT_TRUE(report.has_value()) << report.error().message;
  return text;
}

TEST(Stories260K, GoesOnAsItIsKnownTo) {
  const auto model = model::Model::Open(TestData("models/stories260K.gguf"));
  ASSERT_TRUE(model.has_value()) << model.error().message;
  ASSERT_NE((*model)->tokenizer(), nullptr);
  const auto text = GreedyText(*model, "Once upon a time", {}, 64);
  ASSERT_TRUE(text.has_value());
  EXPECT_TRUE(
      text->starts_with(", there was a little girl named Lily. She loved to "
                        "play outside in the park."))
      << *text;
}

// The demo model, if it has been converted into models/.
std::string DemoPath() {
  const std::string folder = std::string(TC_SOURCE_DIR) + "/models";
  std::error_code error;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(folder, error)) {
    const std::string path = entry.path().string().substr(folder.size());
    if (path.ends_with(".gguf") && path.find("demo") != std::string::npos) {
      return entry.path().string();
    }
  }
  return {};
}

class Demo : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string path = DemoPath();
    if (path.empty()) GTEST_SKIP() << "needs the demo model in models/";
    auto model = model::Model::Open(path);
    ASSERT_TRUE(model.has_value()) << model.error().message;
    model_ = *std::move(model);
    reference_ = ReadJson(TestData("demo/reference.json"));
  }

  std::shared_ptr<const model::Model> model_;
  nlohmann::json reference_;
};

TEST_F(Demo, LogitsOfTheFirst128Positions) {
  const auto tokens = reference_["logits"]["tokens"].get<Tokens>();
  const auto expected = ReadFloats(TestData("demo/reference_logits.f32"));
  ASSERT_EQ(expected.size(), tokens.size() * 2048);
  for (const kernels::Isa isa : kernels::SupportedIsas()) {
    const auto session = OpenSession(model_, isa);
    ASSERT_NE(session, nullptr);
    EXPECT_LE(Nmse(LogitsOf(*session, tokens, tokens.size()), expected), 1e-6)
        << kernels::NameOf(isa);
  }
}

TEST_F(Demo, WritesTheReferenceStory) {
  const auto& greedy = reference_["greedy"];
  const auto prompt =
      greedy["prompt_with_leading_endoftext"].get<std::string>();
  const auto expected = greedy["text"].get<std::string>();
  const auto text =
      GreedyText(model_, "<|endoftext|>" + prompt,
                 {.add_special = false, .parse_special = true}, -1);
  ASSERT_TRUE(text.has_value());
  EXPECT_EQ(prompt + *text, expected);
}

}  // namespace
}  // namespace thermocline

#include "import/hf_rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "gguf/gguf.h"
#include "os/test_folder.h"

namespace thermocline::importer {
namespace {

using Scaling = HfRope::Scaling;

Result<HfRope> ReadRope(const Json& json) {
  return ReadHfRope(JsonFields::Of(json, "config.json").value(), 4096);
}

void ExpectBadRope(const Json& json, ErrorCode code, const std::string& part) {
  const auto rope = ReadRope(json);
  ASSERT_FALSE(rope.has_value()) << json.dump();
  EXPECT_EQ(rope.error().code, code);
  EXPECT_NE(rope.error().message.find(part), std::string::npos)
      << rope.error().message;
}

TEST(HfRopeTest, BaseInEitherPlace) {
  EXPECT_EQ(ReadRope(Json::object())->theta, 10000.0);
  EXPECT_EQ(ReadRope({{"rope_theta", 5e5}})->theta, 5e5);
  EXPECT_EQ(ReadRope({{"rope_parameters",
                       {{"rope_theta", 1e6}, {"rope_type", "default"}}}})
                ->theta,
            1e6);
  for (const double bad : {1.0, 1.0000000001, 1e31, 1e300, -5.0}) {
    ExpectBadRope({{"rope_theta", bad}}, ErrorCode::kCorrupt, "rope_theta");
  }
  EXPECT_EQ(ReadRope({{"rope_theta", 1.0000002}})->theta, 1.0000002);
  ExpectBadRope({{"rope_theta", "x"}}, ErrorCode::kCorrupt, "rope_theta");
}

TEST(HfRopeTest, Linear) {
  const HfRope rope =
      ReadRope({{"rope_scaling", {{"type", "linear"}, {"factor", 4.0}}}})
          .value();
  EXPECT_EQ(rope.scaling, Scaling::kLinear);
  EXPECT_EQ(rope.factor, 4.0);
  EXPECT_EQ(ReadRope({{"rope_scaling", nullptr}})->scaling, Scaling::kNone);
}

TEST(HfRopeTest, Yarn) {
  Json scaling = {{"rope_type", "yarn"}, {"factor", 4.0}};
  EXPECT_EQ(ReadRope({{"rope_scaling", scaling}})->original_context, 4096);
  scaling["original_max_position_embeddings"] = 1024;
  scaling["beta_fast"] = 32;
  scaling["beta_slow"] = 1;
  scaling["truncate"] = true;
  scaling["mscale"] = 1.0;  // nothing by itself
  const HfRope rope = ReadRope({{"rope_scaling", scaling}}).value();
  EXPECT_EQ(rope.scaling, Scaling::kYarn);
  EXPECT_EQ(rope.original_context, 1024);
  EXPECT_EQ(rope.attention_factor, std::nullopt);
  for (const auto& [key, value] :
       {std::pair<const char*, Json>("beta_fast", 16),
        {"mscale_all_dim", 0.5},
        {"truncate", false}}) {
    Json changed = scaling;
    changed[key] = value;
    ExpectBadRope({{"rope_scaling", changed}}, ErrorCode::kUnsupported, key);
  }
}

TEST(HfRopeTest, SenselessAndUnknownScaling) {
  for (const char* type : {"dynamic", "longrope", "su"}) {
    ExpectBadRope({{"rope_scaling", {{"type", type}, {"factor", 2.0}}}},
                  ErrorCode::kUnsupported, type);
  }
  ExpectBadRope({{"rope_scaling", {{"type", "linear"}}}}, ErrorCode::kCorrupt,
                "factor");
  ExpectBadRope({{"rope_scaling", {{"type", "linear"}, {"factor", 0}}}},
                ErrorCode::kCorrupt, "factor");
  ExpectBadRope({{"rope_scaling", 3}}, ErrorCode::kCorrupt, "rope_scaling");
  ExpectBadRope({{"rope_scaling",
                  {{"type", "llama3"},
                   {"factor", 8},
                   {"low_freq_factor", 4},
                   {"high_freq_factor", 4},
                   {"original_max_position_embeddings", 8192}}}},
                ErrorCode::kCorrupt, "low_freq_factor");
}

// Forms that are not known are not dropped.
TEST(HfRopeTest, NothingIsLostWithoutAWord) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    ExpectBadRope({{key, {{"factor", 4.0}}}}, ErrorCode::kUnsupported,
                  "factor");
    ExpectBadRope({{key, {{"full_attention", {{"rope_theta", 5e5}}}}}},
                  ErrorCode::kUnsupported, "full_attention");
    ExpectBadRope({{key, {{"rope_type", "default"}, {"type", "mrope"}}}},
                  ErrorCode::kUnsupported, "mrope");
    ExpectBadRope(
        {{key, {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}}}},
        ErrorCode::kUnsupported, "partial_rotary_factor");
    const Json harmless = {{"rope_theta", 5e5},
                           {"factor", nullptr},
                           {"partial_rotary_factor", 1.0}};
    EXPECT_EQ(ReadRope({{key, harmless}})->theta, 5e5);
  }
  const Json linear = {
      {"rope_type", "linear"}, {"type", "linear"}, {"factor", 4.0}};
  EXPECT_EQ(
      ReadRope({{"rope_scaling", linear}, {"rope_parameters", linear}})->factor,
      4.0);
  Json with_theta = linear;
  with_theta["rope_theta"] = 5e5;
  EXPECT_EQ(
      ReadRope({{"rope_scaling", linear}, {"rope_parameters", with_theta}})
          ->theta,
      5e5);
  ExpectBadRope({{"rope_scaling", linear},
                 {"rope_parameters", {{"rope_type", "default"}}}},
                ErrorCode::kUnsupported, "rope_scaling");
  ExpectBadRope({{"rope_theta", 1e4}, {"rope_parameters", with_theta}},
                ErrorCode::kUnsupported, "rope_parameters");
}

std::unique_ptr<const gguf::File> Written(const HfRope& rope,
                                          const os::TestFolder& folder) {
  auto writer = gguf::Writer::Create(folder / "r.gguf").value();
  EXPECT_TRUE(WriteHfRope(rope, "llama.", *writer).has_value());
  EXPECT_TRUE(writer->Start().has_value());
  EXPECT_TRUE(writer->Finish().has_value());
  return gguf::File::Open(folder / "r.gguf").value();
}

TEST(WriteHfRopeTest, Keys) {
  const os::TestFolder folder;
  const auto plain = Written({.theta = 5e5}, folder);
  EXPECT_EQ(plain->Float("llama.rope.freq_base").value(), 5e5);
  EXPECT_EQ(plain->metadata().size(), 1u);
  const auto linear =
      Written({.scaling = Scaling::kLinear, .factor = 4.0}, folder);
  EXPECT_EQ(linear->String("llama.rope.scaling.type").value(), "linear");
  EXPECT_EQ(linear->Float("llama.rope.scaling.factor").value(), 4.0);
  const auto yarn = Written({.scaling = Scaling::kYarn,
                             .factor = 4.0,
                             .original_context = 1024,
                             .attention_factor = 1.0},
                            folder);
  EXPECT_EQ(yarn->String("llama.rope.scaling.type").value(), "yarn");
  EXPECT_EQ(yarn->Int("llama.rope.scaling.original_context_length").value(),
            1024);
  // Together with the engine's own magnitude this makes 1.
  EXPECT_NEAR(*yarn->Float("llama.rope.scaling.attn_factor").value() *
                  (1.0 + 0.1 * std::log(4.0)),
              1.0, 1e-6);
}

// Against the definition: frequencies, not factors, are blended.
TEST(RopeFactorsTest, Llama31) {
  const Llama3Scaling scaling = {8.0, 1.0, 4.0, 8192.0};
  const auto factors = RopeFactors(scaling, 500000.0, 128);
  ASSERT_EQ(factors.size(), 64u);
  int num_blended = 0;
  for (size_t i = 0; i < factors.size(); ++i) {
    const double freq =
        std::pow(500000.0, -2.0 * static_cast<double>(i) / 128.0);
    const double turns = 8192.0 * freq / (2.0 * std::numbers::pi);
    double expected = freq;
    if (turns < 1.0) {
      expected = freq / 8.0;
    } else if (turns <= 4.0) {
      const double smooth = (turns - 1.0) / 3.0;
      expected = (1.0 - smooth) * freq / 8.0 + smooth * freq;
      ++num_blended;
    }
    EXPECT_NEAR(freq / static_cast<double>(factors[i]) / expected, 1.0, 1e-6)
        << i;
  }
  EXPECT_EQ(num_blended, 6);
  EXPECT_EQ(factors.front(), 1.0f);
  EXPECT_EQ(factors.back(), 8.0f);
}

}  // namespace
}  // namespace thermocline::importer

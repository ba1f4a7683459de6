#include "import/hf_config_fields.h"

#include <gtest/gtest.h>

#include <limits>

#include "import/hf_test_folder.h"
#include "model/test_log.h"

namespace thermocline::importer {
namespace {

JsonFields FieldsOf(const Json& json) {
  return JsonFields::Of(json, "config.json").value();
}

void ExpectError(const Status& status, ErrorCode code,
                 const std::string& part) {
  ASSERT_FALSE(status.has_value()) << part;
  EXPECT_EQ(status.error().code, code);
  EXPECT_NE(status.error().message.find("config.json"), std::string::npos);
  EXPECT_NE(status.error().message.find(part), std::string::npos)
      << status.error().message;
}

TEST(KeyInUseTest, TheOlderNameOnlyWhereItIsAlone) {
  const Json older = {{"n_head", 3}};
  const Json both = {{"n_head", 3}, {"num_heads", 4}};
  const Json none = Json::object();
  EXPECT_STREQ(KeyInUse(FieldsOf(older), "num_heads", "n_head"), "n_head");
  EXPECT_STREQ(KeyInUse(FieldsOf(both), "num_heads", "n_head"), "num_heads");
  EXPECT_STREQ(KeyInUse(FieldsOf(none), "num_heads", "n_head"), "num_heads");
}

TEST(RequireFlagTest, AbsentCountsAsTheOneValue) {
  const Json json = {{"alibi", true}, {"bias", 1}};
  EXPECT_TRUE(RequireFlag(FieldsOf(json), "alibi", true));
  EXPECT_TRUE(RequireFlag(FieldsOf(json), "absent", false));
  ExpectError(RequireFlag(FieldsOf(json), "alibi", false),
              ErrorCode::kUnsupported, "\"alibi\" is true");
  ExpectError(RequireFlag(FieldsOf(json), "bias", false), ErrorCode::kCorrupt,
              "\"bias\"");
}

TEST(CompleteHeadsTest, WidthsAndTheirLimits) {
  const Json json = Json::object();
  const auto complete = [&](HfConfig config) {
    return CompleteHeads(FieldsOf(json), "heads", "kv_heads", config);
  };
  HfConfig config;
  config.width = 64;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  HfConfig completed = config;
  ASSERT_TRUE(CompleteHeads(FieldsOf(json), "heads", "kv_heads", completed));
  EXPECT_EQ(completed.head_width, 16);
  config.num_kv_heads = 3;
  ExpectError(complete(config), ErrorCode::kCorrupt, "\"kv_heads\" is 3");
  config.num_kv_heads = 2;
  config.width = 65;
  ExpectError(complete(config), ErrorCode::kCorrupt, "divide the width 65");
  config.width = 60;  // heads of 15
  ExpectError(complete(config), ErrorCode::kCorrupt, "\"heads\"");
  config.rope_kind = RopeKind::kNone;
  EXPECT_TRUE(complete(config));
  config.head_width = model::kMaxWidth;
  ExpectError(complete(config), ErrorCode::kCorrupt, "\"heads\"");
}

Result<HfConfig> Activate(const Json& json, const char* fallback = nullptr) {
  HfConfig config;
  TC_RETURN_IF_ERROR(
      ReadActivation(FieldsOf(json), "hidden_act", fallback, config));
  return config;
}

Json Act(const char* name) { return {{"hidden_act", name}}; }

TEST(ReadActivationTest, Names) {
  const std::pair<const char*, Activation> names[] = {
      {"silu", Activation::kSilu},
      {"swish", Activation::kSilu},
      {"gelu", Activation::kGelu},
      {"gelu_new", Activation::kGelu},
      {"gelu_pytorch_tanh", Activation::kGelu},
      {"relu", Activation::kRelu},
      {"drelu", Activation::kDRelu},
      {"relu2", Activation::kRelu2},
      {"squared_relu", Activation::kRelu2},
      {"fatrelu", Activation::kFatRelu}};
  for (const auto& [name, activation] : names) {
    EXPECT_EQ(Activate(Act(name))->activation, activation) << name;
  }
  EXPECT_EQ(Activate(Json::object(), "relu")->activation, Activation::kRelu);
  for (const auto& [json, code, part] :
       {std::tuple(Act("mish"), ErrorCode::kUnsupported, "\"mish\""),
        std::tuple(Json::object(), ErrorCode::kCorrupt, "is missing"),
        std::tuple(Json{{"hidden_act", 3}}, ErrorCode::kCorrupt,
                   "not a string")}) {
    const auto config = Activate(json);
    ASSERT_FALSE(config.has_value());
    EXPECT_EQ(config.error().code, code);
    EXPECT_NE(config.error().message.find(part), std::string::npos)
        << config.error().message;
  }
}

TEST(ReadActivationTest, PlainGeluWarns) {
  const model::TestLog log;
  ASSERT_TRUE(Activate(Act("gelu_new")).has_value());
  EXPECT_TRUE(log.lines().empty());
  ASSERT_TRUE(Activate(Act("gelu")).has_value());
  ASSERT_EQ(log.lines().size(), 1u);
  EXPECT_NE(log.lines()[0].find("erf"), std::string::npos);
}

TEST(ReadActivationTest, ThresholdOfFatRelu) {
  const model::TestLog log;
  Json json = Act("fatrelu");
  json["hidden_act_param"] = 0.01;
  EXPECT_EQ(Activate(json)->activation_threshold, 0.01);
  json["hidden_act_param"] = -1;
  EXPECT_FALSE(Activate(json).has_value());
  json.erase("hidden_act_param");
  EXPECT_TRUE(log.lines().empty());
  EXPECT_EQ(Activate(json)->activation_threshold, std::nullopt);
  EXPECT_EQ(log.lines().size(), 1u);
  json["fatrelu_threshold"] = 0.5;
  EXPECT_EQ(Activate(json)->activation_threshold, 0.5);
  json["hidden_act"] = "relu";
  EXPECT_EQ(Activate(json)->activation_threshold, std::nullopt);
}

TEST(ReadEpsilonTest, RangeAndFallback) {
  const auto read = [](const Json& value, std::optional<double> fallback) {
    const Json json = {{"eps", value}};
    return ReadEpsilon(FieldsOf(json), "eps", fallback);
  };
  EXPECT_EQ(read(1e-6, std::nullopt).value(), 1e-6);
  EXPECT_EQ(read(0, std::nullopt).value(), 0.0);
  EXPECT_EQ(read(nullptr, 1e-5).value(), 1e-5);
  EXPECT_FALSE(read(nullptr, std::nullopt).has_value());
  EXPECT_FALSE(read(-1e-9, 1e-5).has_value());
  EXPECT_FALSE(read(1.5, 1e-5).has_value());
  EXPECT_FALSE(read("1e-5", 1e-5).has_value());
}

}  // namespace
}  // namespace thermocline::importer

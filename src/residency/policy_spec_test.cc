#include "residency/policy_spec.h"

#include <gmock/gmock.h>

#include "residency/policy.h"

namespace thermocline::residency {
namespace {

constexpr ParameterInfo kInfos[] = {
    {"lambda", 0.5, 0.0, 0.999},
    {"adapt", 1.0, 0.0, 0.0, true},
};

TEST(PolicySpec, SaysWhatItDoesNotLeaveOut) {
  const struct {
    const char* spec;
    double lambda;
    bool adapts;
  } rows[] = {
      {"momentum", 0.5, true},
      {"momentum:lambda=0.25", 0.25, true},
      {"momentum:adapt=off", 0.5, false},
      {"momentum:adapt=off,lambda=0", 0.0, false},
      {"momentum:lambda=999e-3,adapt=on", 0.999, true},
  };
  for (const auto& row : rows) {
    const auto parameters = ParseParameters(row.spec, kInfos);
    ASSERT_TRUE(parameters.has_value()) << row.spec;
    EXPECT_DOUBLE_EQ(parameters->Get("lambda"), row.lambda) << row.spec;
    EXPECT_EQ(parameters->IsOn("adapt"), row.adapts) << row.spec;
  }
  EXPECT_EQ(DescribeParameters(kInfos), "lambda=0.5,adapt=on");
  EXPECT_EQ(DescribeParameters({}), "");
}

TEST(PolicySpec, SaysWhatIsWrong) {
  const struct {
    const char* spec;
    const char* message;
  } rows[] = {
      {"m:",
       "policy m: \"\" is no parameter with its value, NAME=VALUE; its "
       "parameters are lambda=0.5,adapt=on"},
      {"m:lambda", "\"lambda\" is no parameter with its value"},
      {"m:lambda=0.5,", "\"\" is no parameter with its value"},
      {"m:lambda=0.5,,adapt=on", "\"\" is no parameter with its value"},
      {"m:beta=1", "no parameter is called \"beta\"; its parameters are"},
      {"m:=1", "no parameter is called \"\""},
      {"m:lambda=0.1,lambda=0.2", "lambda is there twice"},
      {"m:lambda=1", "lambda is \"1\": it is from 0 to 0.999"},
      {"m:lambda=-0.1", "lambda is \"-0.1\": it is from 0"},
      {"m:lambda=nan", "lambda is \"nan\": it is from 0"},
      {"m:lambda=inf", "lambda is \"inf\""},
      {"m:lambda=1e999", "lambda is \"1e999\""},
      {"m:lambda=", "lambda is \"\""},
      {"m:lambda= 0.5", "lambda is \" 0.5\""},
      {"m:lambda=0.5x", "lambda is \"0.5x\""},
      {"m:lambda=0.5:adapt=on", "lambda is \"0.5:adapt=on\""},
      {"m:adapt=1", "adapt is \"1\": it is on or off"},
      {"m:adapt=\x1b[2J", "adapt is \"\\x1b[2J\""},
  };
  for (const auto& row : rows) {
    const auto parameters = ParseParameters(row.spec, kInfos);
    ASSERT_FALSE(parameters.has_value()) << row.spec;
    EXPECT_EQ(parameters.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(parameters.error().message, ::testing::HasSubstr(row.message));
  }
  const auto none = ParseParameters("lru:lambda=0.5", {});
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().message,
            "policy lru: no parameter is called \"lambda\"; it has no "
            "parameters");
}

TEST(PolicySpec, ListsAreSplitAtCommas) {
  using Specs = std::vector<std::string>;
  EXPECT_EQ(SplitSpecs(""), (Specs{""}));
  EXPECT_EQ(SplitSpecs("lru"), (Specs{"lru"}));
  EXPECT_EQ(SplitSpecs("lru,momentum:adapt=off,lambda=0.5,slow:margin=0"),
            (Specs{"lru", "momentum:adapt=off,lambda=0.5", "slow:margin=0"}));
  EXPECT_EQ(SplitSpecs("lambda=0.5,lru,"), (Specs{"lambda=0.5", "lru", ""}));
}

// Each policy's own text is a spec of it, and each default is in its range.
TEST(PolicySpec, OfEachPolicyWithItsDefaults) {
  for (const PolicyInfo& info : Policies()) {
    const std::string name(info.name);
    EXPECT_TRUE(CheckPolicySpec(name).has_value()) << name;
    if (info.parameters.empty()) continue;
    const std::string spec = name + ":" + std::string(info.parameters);
    const Status status = CheckPolicySpec(spec);
    EXPECT_TRUE(status.has_value()) << spec << ": " << status.error().message;
  }
}

}  // namespace
}  // namespace thermocline::residency

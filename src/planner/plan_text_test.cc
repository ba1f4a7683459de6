#include "planner/plan_text.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace thermocline::planner {
namespace {

TEST(PlanTextTest, RunsOfAnySetComeBack) {
  Random random(1);
  for (int draw = 0; draw < 200; ++draw) {
    const auto count = static_cast<uint32_t>(1 + random.Below(130));
    const double density = random.Uniform();
    std::vector<uint32_t> items;
    for (uint32_t i = 0; i < count; ++i) {
      if (random.Uniform() < density) items.push_back(i);
    }
    EXPECT_EQ(ParseRuns(FormatRuns(items), count), items) << draw;
  }
  EXPECT_EQ(FormatRuns(std::vector<uint32_t>{0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
}

TEST(PlanTextTest, WhatIsNotWrittenSoIsRefused) {
  for (const char* text :
       {"1,1", "2,1", "0-1,2", "3-3", "4-2", "10", "0-10", "01", "-1", "+1",
        " 1", "1 ", "1,", ",1", "1--2", "0x1", "99999999999", "a", "1;2"}) {
    EXPECT_FALSE(ParseRuns(text, 10).has_value()) << text;
  }
}

TEST(PlanTextTest, OneObjectWithoutAKeyTwice) {
  const std::pair<const char*, const char*> cases[] = {
      {"[]", "not a JSON object"},
      {"{\"a\": 1, \"a\": 2}", "key \"a\" twice"},
      {"{\"a\": [[[[[[[[[[1]]]]]]]]]]}", "nested too deep"},
      {"{\"a\": 1", "cut short"},
      {"{\"a\": 1e999}", "not valid JSON"},
      {"", "not valid JSON"}};
  for (const auto& [text, message] : cases) {
    const auto json = ParsePlanJson(text, "x.json");
    ASSERT_FALSE(json.has_value()) << text;
    EXPECT_EQ(json.error().code, ErrorCode::kCorrupt);
    EXPECT_TRUE(json.error().message.starts_with("x.json: ")) << text;
    EXPECT_NE(json.error().message.find(message), std::string::npos)
        << json.error().message;
  }
}

}  // namespace
}  // namespace thermocline::planner

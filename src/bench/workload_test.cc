#include "bench/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace thermocline::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ListTestsTest, NamesThemAsLlamaBenchDoes) {
  const auto tests = ListTests({512, 0}, {32}, {0, 4096}, 8192);
  ASSERT_TRUE(tests.has_value()) << tests.error().message;
  std::vector<std::string> names;
  for (const Workload& test : *tests) names.push_back(test.name());
  EXPECT_THAT(names,
              ElementsAre("pp512", "tg32", "pp512 @ d4096", "tg32 @ d4096"));
}

std::string Message(int64_t prompt, int64_t generate, int64_t depth) {
  const auto tests = ListTests({prompt}, {generate}, {depth}, 64);
  return tests.has_value() ? "" : tests.error().message;
}

TEST(ListTestsTest, RefusesWhatCannotRun) {
  EXPECT_THAT(Message(0, 0, 0), HasSubstr("nothing to run"));
  EXPECT_THAT(Message(-3, 0, 0), HasSubstr("-3"));
  EXPECT_THAT(Message(3, 0, -7), HasSubstr("-7"));
  EXPECT_EQ(Message(64, 64, 0), "");
  EXPECT_THAT(Message(65, 0, 0), HasSubstr("65 positions, but the model's "
                                           "context is 64; give a smaller -p"));
  EXPECT_THAT(Message(0, 65, 0), HasSubstr("give a smaller -n"));
  EXPECT_EQ(Message(0, 4, 60), "");
  EXPECT_THAT(Message(0, 4, 61), HasSubstr("tg4 @ d61 needs 65 positions"));
  EXPECT_THAT(Message(0, 4, INT64_MAX - 4), HasSubstr("give a smaller -d"));
}

TEST(FixedTokensTest, BeginAlikeAndDiffer) {
  const auto few = FixedTokens(5, 32000);
  const auto many = FixedTokens(100, 32000);
  EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin()));
  EXPECT_EQ(std::set(many.begin(), many.end()).size(), 100u);
}

}  // namespace
}  // namespace thermocline::bench

#include "bench/profile_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace thermocline::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(FormatProfileTest, ShowsStagesThatRanAndTheRest) {
  compute::StageTimes profile;
  profile.whole = {
      .num_calls = 2, .ns = 100'000, .num_joins = 20, .wait_ns = 10'000};
  profile.stages[static_cast<size_t>(compute::Stage::kQkv)] = {
      .num_calls = 4,
      .ns = 60'000,
      .num_bytes = 600'000,
      .num_joins = 12,
      .wait_ns = 8'000};
  profile.stages[static_cast<size_t>(compute::Stage::kHead)] = {
      .num_calls = 2, .ns = 10'000, .num_joins = 4};
  const std::string table = FormatProfile(profile, 2);
  EXPECT_THAT(table,
              HasSubstr("| qkv      |     2.0 |       30.0 |   60.0 |    "
                        "  0.30 |   10.00 |     6.0 |       4.0 |\n"));
  EXPECT_THAT(table, HasSubstr("| head     |     1.0 |        5.0 |   10.0 |   "
                               "        |         |     2.0 |       0.0 |\n"));
  EXPECT_THAT(table, HasSubstr("| other    |     0.0 |       15.0 |   30.0 |   "
                               "        |         |     2.0 |       1.0 |\n"));
  EXPECT_THAT(table, Not(HasSubstr("select")));
  // 20 joins without the head's 4, over 2 batches of 2 layers.
  EXPECT_THAT(table, HasSubstr("Means of 2 batches. Joins per layer: 4.0\n"));
}

}  // namespace
}  // namespace thermocline::bench

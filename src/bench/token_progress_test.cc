#include "bench/token_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace thermocline::bench {
namespace {

TEST(TokenProgressTest, CountsWhatIsNotMutedAndNeverTwice) {
  std::vector<uint64_t> seen;
  const ProgressFn report = [&](std::string_view what, uint64_t num_done,
                                uint64_t num_total) {
    EXPECT_EQ(what, "bench");
    EXPECT_EQ(num_total, 20u);
    seen.push_back(num_done);
  };
  TokenProgress progress(report, 20);
  progress.Show(3);
  progress.Show(3);
  progress.Add(8);
  progress.Mute(true);
  progress.Show(5);
  progress.Add(8);
  progress.Mute(false);
  progress.Add(1);
  EXPECT_THAT(seen, ::testing::ElementsAre(3, 8, 9));
}

}  // namespace
}  // namespace thermocline::bench

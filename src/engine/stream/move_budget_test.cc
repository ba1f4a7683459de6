#include "engine/stream/move_budget.h"

#include <gtest/gtest.h>

namespace thermocline::engine {
namespace {

// Passes of two layers: runs of 1 ms that read 1000 bytes, and windows behind
// them. Returns what the last of many may take behind each.
struct WindowCase {
  const char* name;
  double first_window, second_window;  // seconds
  bool is_idle;
  uint64_t least, most;  // bytes of a pass
};

class MoveBudgetWindows : public ::testing::TestWithParam<WindowCase> {};

TEST_P(MoveBudgetWindows, AreUsedByHalf) {
  const WindowCase& subject = GetParam();
  MoveBudget budget(2);
  double now = 0.0;
  uint64_t taken = 0;
  for (int pass = 0; pass < 400; ++pass) {
    for (const size_t layer : {0, 1}) {
      budget.BeginRun(now);
      now += 1e-3;
      budget.EndRun(layer, now, 1000, 1e-3, subject.is_idle);
      const uint64_t count = budget.Take(layer, 1);
      if (pass >= 200) taken += count;
      now += layer == 0 ? subject.first_window : subject.second_window;
    }
  }
  EXPECT_GE(taken, 200 * subject.least);
  EXPECT_LE(taken, 200 * subject.most);
}

INSTANTIATE_TEST_SUITE_P(
    All, MoveBudgetWindows,
    ::testing::Values(WindowCase{"alike", 1e-3, 1e-3, true, 990, 1001},
                      WindowCase{"unlike", 3e-3, 0.0, true, 1490, 1501},
                      WindowCase{"somebody_thinks", 0.0, 60.0, true, 9900,
                                 10001},
                      WindowCase{"the_drive_is_busy", 1e-3, 1e-3, false, 0, 0},
                      WindowCase{"none", 0.0, 0.0, true, 0, 0}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(MoveBudgetTest, KnowsNothingAtFirst) {
  MoveBudget budget(1);
  EXPECT_EQ(budget.Take(0, 1 << 20), 0u);
  budget.BeginRun(0.0);
  budget.EndRun(0, 1.0, 0, 0.0, true);
  EXPECT_EQ(budget.Take(0, 1 << 20), 0u);
}

// Credit adds up until it is one.
TEST(MoveBudgetTest, AUnitMayTakeSeveralPasses) {
  MoveBudget budget(1);
  double now = 0.0;
  int num_taken = 0;
  for (int pass = 0; pass < 1000; ++pass) {
    budget.BeginRun(now);
    budget.EndRun(0, now + 1e-3, 1000, 1e-3, true);
    num_taken += static_cast<int>(budget.Take(0, 5000));
    now += 2e-3;
  }
  // 500 bytes a pass.
  EXPECT_GE(num_taken, 90);
  EXPECT_LE(num_taken, 101);
  const auto left = budget.Take(0, 1);
  budget.GiveBack(left);
  EXPECT_GE(budget.Take(0, 1), left);
}

}  // namespace
}  // namespace thermocline::engine

#include "planner/storage_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "planner/test_storage.h"

namespace thermocline::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Every core computes, reads, or rests.
double BruteForce(const StorageMachine& machine, const CoreLimits& limits,
                  const CasesOf& cases_of) {
  const size_t count = machine.cores.size();
  double best = std::numeric_limits<double>::infinity();
  size_t num_ways = 1;
  for (size_t i = 0; i < count; ++i) num_ways *= 3;
  for (size_t way = 0; way < num_ways; ++way) {
    std::vector<Core> compute, io;
    bool is_allowed = true;
    size_t rest = way;
    for (const Core& core : machine.cores) {
      const size_t what = rest % 3;
      rest /= 3;
      if (what == 0) continue;
      (what == 1 ? compute : io).push_back(core);
      is_allowed = is_allowed && (limits.cpus.empty() ||
                                  std::ranges::count(limits.cpus, core.cpu));
    }
    const size_t most = limits.most_threads > 0 ? limits.most_threads : count;
    if (!is_allowed || compute.empty() || compute.size() + io.size() > most ||
        io.size() < machine.least_io_cores ||
        io.size() > machine.most_io_cores) {
      continue;
    }
    const auto cases = cases_of(static_cast<uint32_t>(compute.size()));
    for (const StorageCase& one : *cases) {
      best = std::min(best,
                      PredictStorage(machine, one.model,
                                     ShareOf(machine, compute, io), *one.uses())
                          .seconds);
    }
  }
  return best;
}

TEST(StoragePlan, TriesAllThereIs) {
  Random random(7);
  for (int round = 0; round < 12; ++round) {
    StorageMachine machine = TestPhone();
    machine.cores.resize(6);
    for (Core& core : machine.cores) {
      // Some alike, some not.
      core.row_rate = 1e9 * static_cast<double>(1 + random.Below(3));
      core.read_share = random.Below(2) == 0 ? 1.0 : 0.5;
    }
    machine.least_io_cores = static_cast<uint32_t>(random.Below(2));
    machine.most_io_cores = 2;
    machine.read_cpu_seconds = 1e-5 * random.Uniform();
    CoreLimits limits = {.most_threads =
                             static_cast<uint32_t>(2 + random.Below(5))};
    if (round % 3 == 0) limits.cpus = {0, 2, 3, 5};
    const CasesOf cases = TestCases(static_cast<uint32_t>(random.Below(600)));
    const auto plan = PlanStorage(machine, limits, cases);
    ASSERT_TRUE(plan.has_value()) << plan.error().message;
    EXPECT_NEAR(plan->cost.seconds, BruteForce(machine, limits, cases), 1e-12)
        << round;
  }
}

// PowerInfer-2's phones: one core reads, the big ones compute.
TEST(StoragePlan, OfAPhoneTheBigCoresComputeAndOneReads) {
  const StorageMachine phone = TestPhone();
  // Storage is what takes longest: the fast core reads.
  const auto slow = PlanStorage(phone, {.most_threads = 5}, TestCases(500));
  ASSERT_TRUE(slow.has_value());
  EXPECT_THAT(slow->io_cpus, ElementsAre(7));
  EXPECT_EQ(slow->compute_cpus.back(), 6);
  EXPECT_EQ(slow->chosen.policy, "good");
  EXPECT_GT(slow->cost.storage_seconds, 0.0);
  // Next to nothing is missed: the four big ones compute, a small one reads.
  const auto quick = PlanStorage(phone, {.most_threads = 5}, TestCases(1));
  ASSERT_TRUE(quick.has_value());
  EXPECT_THAT(quick->compute_cpus, ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(quick->io_cpus.size(), 1u);
  EXPECT_LT(quick->io_cpus[0], 4);
  // Cores that make nothing faster rest.
  EXPECT_EQ(slow->io_cpus.size(), 1u);
}

TEST(StoragePlan, MoreMissesAreNeverFaster) {
  double before = 0.0;
  for (const uint32_t missed : {0u, 1u, 10u, 100u, 300u, 900u}) {
    const auto plan = PlanStorage(TestPhone(), {}, TestCases(missed));
    ASSERT_TRUE(plan.has_value());
    EXPECT_GE(plan->cost.seconds, before) << missed;
    before = plan->cost.seconds;
  }
}

TEST(StoragePlan, RefusesWhatCannotBe) {
  const auto message_of = [](const StorageMachine& machine,
                             const CoreLimits& limits, const CasesOf& cases) {
    const auto plan = PlanStorage(machine, limits, cases);
    return plan ? std::string("planned") : plan.error().message;
  };
  EXPECT_THAT(message_of(TestPhone(), {.cpus = {4, 9}}, TestCases(1)),
              HasSubstr("CPU 9 is none of those that a phone computes with: 0, "
                        "1, 2, 3, 4, 5, 6, 7"));
  EXPECT_THAT(message_of(TestPhone(), {.most_threads = 1}, TestCases(1)),
              HasSubstr("1 thread leaves no room for 1 core"));
  EXPECT_THAT(message_of({}, {}, TestCases(1)), HasSubstr("one core"));
  EXPECT_THAT(message_of(TestPhone(), {},
                         [](uint32_t) -> Result<std::vector<StorageCase>> {
                           return Fail(ErrorCode::kResourceExhausted,
                                       "too little");
                         }),
              HasSubstr("too little"));
}

TEST(StoragePlan, FindsTheLeastBudget) {
  int num_asked = 0;
  const auto seconds_of = [&](uint64_t budget) -> Result<double> {
    ++num_asked;
    return 1e6 / static_cast<double>(budget);
  };
  struct Row {
    double seconds;
    uint64_t least;
  };
  for (const Row& row : {Row{2.0, 500'000}, Row{1e9, 1000}, Row{1e-9, 0}}) {
    const auto found =
        LeastBudget(1000, 10'000'000, 100, row.seconds, seconds_of);
    ASSERT_TRUE(found.has_value());
    EXPECT_GE(*found, row.least);
    EXPECT_LE(*found, row.least + 100);
  }
  EXPECT_LT(num_asked, 30);
}

}  // namespace
}  // namespace thermocline::planner

#include "cli/storage_problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/test_files.h"
#include "cli/test_storage_model.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;

// What a problem points to.
struct Asked {
  Asked() {
    options.context = 64;
    options.batch = 16;
  }
  Result<StorageProblem> Make(const std::string& path,
                              const StorageQuestion& question = {}) {
    models.push_back(model::Model::Open(path).value());
    return StorageProblem::Create(models.back().get(), options, &machine,
                                  question);
  }
  const model::Model& model() const { return *models.back(); }

  planner::StorageMachine machine = TestHost();
  engine::SessionOptions options;
  // One for each problem.
  std::vector<std::shared_ptr<const model::Model>> models;
};

// Slots are those that the engine will take: the plan of its runtime.
TEST_F(StorageModel, ProblemTakesWhatTheEngineTakes) {
  Asked asked;
  auto problem = asked.Make(ModelPath());
  ASSERT_TRUE(problem.has_value()) << problem.error().message;
  EXPECT_EQ(problem->mode(), engine::FfnMode::kFast);
  const uint64_t least = problem->LeastRam().value();
  const uint64_t all = problem->AllRam().value();
  ASSERT_LT(least, all);
  const uint64_t ram = (least + all) / 2;
  const auto plan = problem->Plan(ram);
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  EXPECT_EQ(plan->chosen.unit, "records");
  EXPECT_EQ(plan->chosen.policy, engine::PolicyOf(""));
  EXPECT_LE(plan->chosen.total_bytes, ram);
  // All but what slots leave to what nobody counts (engine::RoomForSlots).
  EXPECT_GT(plan->chosen.total_bytes, ram - (ram - least) / 4 - 16 * 4096);
  EXPECT_GT(plan->cost.num_missed, 0.0);
  const auto whole = problem->Plan(all);
  ASSERT_TRUE(whole.has_value());
  EXPECT_EQ(whole->chosen.unit, "none");
  EXPECT_EQ(whole->cost.num_missed, 0.0);
  EXPECT_LT(whole->cost.seconds, plan->cost.seconds);
  const auto little = problem->Plan(least - 1);
  ASSERT_FALSE(little.has_value());
  EXPECT_EQ(little.error().code, ErrorCode::kResourceExhausted);
}

// The least is a run's with as many threads as may compute, not one thread's.
TEST_F(StorageModel, ProblemsLeastIsThatOfAllThreads) {
  Asked asked;
  asked.machine.cores.resize(3, asked.machine.cores.front());
  for (int i = 0; i < 3; ++i) {
    asked.machine.cores[static_cast<size_t>(i)].cpu = i;
  }
  struct Case {
    planner::CoreLimits limits;
    int num_threads;
  };
  for (const auto& [limits, num_threads] :
       {Case{{}, 3}, Case{{.most_threads = 2}, 2}, Case{{.cpus = {1}}, 1},
        Case{{.cpus = {0, 1, 2}, .most_threads = 2}, 2}}) {
    const auto problem = asked.Make(ModelPath(), {.limits = limits});
    ASSERT_TRUE(problem.has_value()) << problem.error().message;
    const uint64_t least = problem->LeastRam().value();
    const uint64_t most = problem->AllRam().value();
    const auto fixed = asked.Make(
        ModelPath(),
        {.limits = {.most_threads = static_cast<uint32_t>(num_threads)}});
    EXPECT_EQ(least, fixed->LeastRam().value());
    engine::SessionOptions options = asked.options;
    options.num_threads = num_threads;
    const auto all =
        engine::PlanMemory(asked.model().config(), options,
                           engine::WeightMemory::Of(asked.model()));
    EXPECT_EQ(most, all->host.total());
  }
}

// Of a mixture that may stream either way the least is that of the smaller one,
// as a run's, and the other is no case.
TEST_F(StorageModel, ProblemsLeastHoldsOneOfTwoUnits) {
  const std::string path = TempPath("least_moe.gguf");
  const MainResult made =
      RunMain({"synth", "--like", "tiny-moe", "--for-storage", "-o", path});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  Asked asked;
  asked.options.unit = engine::StreamUnit::kRecords;
  auto by_records = asked.Make(path);
  ASSERT_TRUE(by_records.has_value()) << by_records.error().message;
  const uint64_t records = by_records->LeastRam().value();
  asked.options.unit = std::nullopt;
  auto problem = asked.Make(path);
  ASSERT_TRUE(problem.has_value()) << problem.error().message;
  const uint64_t least = problem->LeastRam().value();
  EXPECT_LT(least, records);
  const auto plan = problem->Plan(least);
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  EXPECT_EQ(plan->chosen.unit, "experts");
  EXPECT_LE(plan->chosen.total_bytes, least);
  EXPECT_EQ(plan->num_cases, 1u);
  EXPECT_FALSE(problem->Plan(least - 1).has_value());
  std::remove(path.c_str());
}

// With all neurons the misses are known: those without a slot.
TEST_F(StorageModel, ProblemOfDensePassesMissesAreKnown) {
  Asked asked;
  asked.options.ffn = engine::FfnMode::kDense;
  auto problem = asked.Make(ModelPath());
  ASSERT_TRUE(problem.has_value()) << problem.error().message;
  EXPECT_THAT(problem->source(), HasSubstr("known exactly"));
  const uint64_t ram =
      (problem->LeastRam().value() + problem->AllRam().value()) / 2;
  const auto plan = problem->Plan(ram).value();
  EXPECT_EQ(plan.chosen.policy, "");
  double num_neurons = 0.0;
  for (const model::LayerSpec& layer : asked.model().config().layers) {
    num_neurons += static_cast<double>(layer.ffn.width);
  }
  EXPECT_EQ(plan.cost.num_used, num_neurons);
  const uint64_t stride = asked.model().config().records[0].stride;
  const double kept =
      static_cast<double>(plan.chosen.cache_bytes / stride) -
      2.0 * static_cast<double>(asked.model().config().layers[0].ffn.width);
  EXPECT_NEAR(plan.cost.num_missed, num_neurons - kept, 1.0);
  asked.options.ffn = engine::FfnMode::kExact;
  auto exact = asked.Make(ModelPath());
  ASSERT_TRUE(exact.has_value()) << exact.error().message;
  EXPECT_THAT(exact->source(), HasSubstr("all of them are asked for"));
}

TEST_F(StorageModel, ProblemComparesPolicies) {
  Asked asked;
  auto problem =
      asked.Make(ModelPath(), {.policies = {"lru", "lfu", "static", "slow"}});
  ASSERT_TRUE(problem.has_value());
  const uint64_t ram =
      (problem->LeastRam().value() + problem->AllRam().value()) / 2;
  const auto best = problem->Plan(ram).value();
  EXPECT_EQ(best.num_cases, 4u);
  for (const char* policy : {"lru", "lfu", "static", "slow"}) {
    auto one = asked.Make(ModelPath(), {.policies = {policy}});
    EXPECT_LE(best.cost.seconds, one->Plan(ram)->cost.seconds) << policy;
  }
}

// A model without records: what fits is planned, too.
TEST_F(StorageModel, ProblemPlansPlainModels) {
  Asked asked;
  auto problem = asked.Make(kLlamaF16);
  ASSERT_TRUE(problem.has_value()) << problem.error().message;
  const auto plan = problem->Plan(problem->AllRam().value());
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  EXPECT_EQ(plan->chosen.unit, "none");
  EXPECT_GT(plan->cost.seconds, 0.0);
}

}  // namespace
}  // namespace thermocline::cli

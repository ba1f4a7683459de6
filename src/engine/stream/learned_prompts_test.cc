// Whom a prompt used that was computed with all neurons stays in memory, also
// where a device for static graphs has computed it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/stream/record_stream.h"
#include "engine/testing/test_prepared_file.h"
#include "engine/testing/test_prompt_device.h"
#include "engine/testing/test_store_rig.h"

namespace thermocline::engine {
namespace {

using testing::FakeReads;
using testing::kStoreLayers;
using testing::PreparedFile;
using testing::PromptRig;
using testing::StoreRig;
using NeuronIds = std::set<uint32_t>;

constexpr size_t kLessonRows = 11;
constexpr float kLeastOpened[] = {0.3f, 0.4f};  // by layer, of kThreshold

struct LessonCase {
  std::string name;
  FfnMode mode = FfnMode::kFast;
  std::string activation = "relu";
  bool on_device = false;
  PromptCheck check = PromptCheck::kOff;
};

// Two layers, so that behind a prompt the records of both are still here.
testing::TinySpec LessonSpec(const LessonCase& test) {
  testing::TinySpec spec;
  spec.activation = test.activation;
  if (test.mode == FfnMode::kFast) {
    spec.predictor_rank = 8;
    spec.lookahead = 0;
  }
  if (test.activation == "fatrelu") spec.threshold = 0.05f;
  if (test.mode == FfnMode::kThreshold)
    spec.thresholds = {kLeastOpened[0], kLeastOpened[1]};
  return spec;
}

SessionOptions LessonOptions(const LessonCase& test) {
  return {.num_threads = 2, .ffn = test.mode, .dense_prompts = true};
}

// [layer] whom the last row of a prompt used, by what its gates gave.
std::vector<NeuronIds> UsedByLast(const LessonCase& test,
                                  const PreparedFile& file) {
  std::vector<NeuronIds> used(2);
  SessionOptions options = LessonOptions(test);
  options.observer = [&](const FfnObservation& seen) {
    if (seen.position + 1 != static_cast<int64_t>(kLessonRows)) return;
    for (const uint32_t neuron : seen.fired) {
      if (test.mode == FfnMode::kThreshold) {
        const float gate = seen.gate[neuron];
        const float opened = gate / (1.0f + std::exp(-gate));
        if (std::abs(opened) < kLeastOpened[seen.layer_idx]) continue;
      }
      used[seen.layer_idx].insert(neuron);
    }
  };
  PromptRig rig(file.mapped, options);
  rig.Prompt(kLessonRows);
  return used;
}

// [layer] who has a slot of its own.
std::vector<NeuronIds> AtHome(const Session& session) {
  const auto& stream = dynamic_cast<const RecordStream&>(*session.stream());
  std::vector<NeuronIds> at_home(2);
  for (size_t layer = 0; layer < at_home.size(); ++layer) {
    const uint32_t* places = stream.store(layer)->places();
    const uint32_t first = stream.arena().plan().first_of(layer);
    for (uint32_t i = 0; i < session.model().config().layers[0].ffn.width;
         ++i) {
      if (places[i] != kAbsent && places[i] >= first) at_home[layer].insert(i);
    }
  }
  return at_home;
}

// A budget by which each layer has about so many slots of its own.
uint64_t BytesForHomes(const model::Model& model, SessionOptions options,
                       uint32_t num_homes) {
  options.budget.ram = testing::LeastBytes(model, options);
  while (PlanRuntime(model, options)->engine.stream->arena.resident[0] <
         num_homes) {
    *options.budget.ram += 2000;
  }
  return *options.budget.ram;
}

class LearnedPrompts : public ::testing::TestWithParam<LessonCase> {};

// With the policy that keeps who was used last.
TEST_P(LearnedPrompts, WhoTheLastRowUsedStays) {
  const os::TestFolder folder;
  const LessonCase& test = GetParam();
  const PreparedFile file = testing::PrepareTiny(folder, LessonSpec(test), 64);
  const std::vector<NeuronIds> used = UsedByLast(test, file);
  SessionOptions options = LessonOptions(test);
  if (test.on_device) {
    options = testing::WithPrompts(testing::ReferenceDevice(), options);
    options.prompts.check = test.check;
  }
  options.policy = "lru";
  options.open_records = FakeReads(file, {.seed = 3});
  const auto model = file.OpenStreamed();
  options.budget.ram = BytesForHomes(*model, options, 115);
  PromptRig rig(model, options);
  const std::vector<NeuronIds> before = AtHome(rig.session());
  rig.Prompt(kLessonRows);
  const std::vector<NeuronIds> at_home = AtHome(rig.session());
  for (size_t layer = 0; layer < used.size(); ++layer) {
    const NeuronIds& homes = at_home[layer];
    EXPECT_LT(homes.size(), 160u);
    EXPECT_GE(homes.size(), used[layer].size());
    EXPECT_GT(used[layer].size(), 30u);
    // Graphs and hosts round unlike: who is next to 0 for one is 0 for another.
    std::vector<uint32_t> missing;
    std::ranges::set_difference(used[layer], homes,
                                std::back_inserter(missing));
    EXPECT_LE(missing.size(), test.on_device ? 1u : 0u) << layer;
    // Nothing was learned of what compares the device.
    if (test.check == PromptCheck::kOff) EXPECT_TRUE(before[layer].empty());
    for (const uint32_t neuron : before[layer]) {
      EXPECT_LT(neuron, homes.size());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, LearnedPrompts,
    ::testing::Values(LessonCase{"fast"}, LessonCase{"exact", FfnMode::kExact},
                      LessonCase{"fatrelu", FfnMode::kExact, "fatrelu"},
                      LessonCase{"threshold", FfnMode::kThreshold, "silu"},
                      LessonCase{"device_fast", FfnMode::kFast, "relu", true},
                      LessonCase{"device_exact", FfnMode::kExact, "relu", true},
                      LessonCase{"device_threshold", FfnMode::kThreshold,
                                 "silu", true},
                      LessonCase{"device_checked", FfnMode::kFast, "relu", true,
                                 PromptCheck::kFail}),
    [](const auto& info) { return info.param.name; });

// A dense prompt's rows move whom the same rows would have moved one by one,
// and read nothing for it. Without the whole layer nobody moves, but scores
// count.
TEST(LearnedPromptsTest, LearnsFromRowsOfAPrompt) {
  for (const residency::PolicyInfo& policy : residency::Policies()) {
    for (const uint32_t num_homes : {1u, 20u, 69u}) {
      SCOPED_TRACE(std::string(policy.name) + " " + std::to_string(num_homes));
      StoreRig rig({.policy = policy.name.data(),
                    .num_homes = num_homes,
                    .reads = {.seed = num_homes}});
      for (const size_t num_rows : {1u, 7u, 90u}) {
        ASSERT_TRUE(rig.Whole(0));
        const uint64_t num_reads = rig.shared().counts.num_reads;
        rig.LearnRows(0, num_rows, true);
        EXPECT_TRUE(rig.AreAsLearned(0)) << num_rows;
        EXPECT_EQ(rig.shared().counts.num_reads, num_reads);
        for (size_t layer = 0; layer < kStoreLayers; ++layer) {
          rig.store(layer).EndPass();
        }
        // The room is another layer's now.
        ASSERT_TRUE(rig.Whole(2));
        rig.LearnRows(0, num_rows, false);
        for (size_t layer = 0; layer < kStoreLayers; ++layer) {
          rig.store(layer).EndPass();
          EXPECT_EQ(rig.NumWrong(layer), 0u);
        }
      }
    }
  }
}

TEST(LearnedPromptsTest, LearnsNothingWhereItIsNotTo) {
  StoreRig rig({.policy = "lru"});
  rig.SetRests(true);
  ASSERT_TRUE(rig.Whole(0));
  rig.LearnRows(0, 5, true);
  ASSERT_TRUE(rig.Run(0));
  EXPECT_TRUE(rig.AreAsLearned(0));
}

}  // namespace
}  // namespace thermocline::engine

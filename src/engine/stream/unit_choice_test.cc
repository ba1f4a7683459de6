#include "engine/stream/unit_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "engine/testing/test_mixtures.h"

namespace thermocline::engine {
namespace {

using ::testing::HasSubstr;

model::Config ChoiceConfig(size_t stride, bool has_gate) {
  model::Config config;
  model::LayerSpec& layer = config.layers.emplace_back();
  layer.ffn.width = 8;
  layer.ffn.gated = true;
  layer.ffn.num_experts = 4;
  layer.ffn.num_experts_used = 2;
  if (stride == 0) return config;
  neuron::RecordLayout& layout = config.records.emplace_back();
  layout.stride = stride;
  if (has_gate) layout.gate = DType::kF16;
  return config;
}

struct UnitCase {
  const char* name;
  size_t stride;  // of records; 0: there are none
  bool has_gate;
  UnitRequest request;
  const char* units;  // "re": either; "": refused
};

std::vector<UnitCase> UnitCases() {
  using enum StreamUnit;
  using enum FfnMode;
  constexpr StorageMode kOurs = StorageMode::kCluster;
  return {
      {"either", 4096, true, {kExperts, kFast}, "re"},
      {"nobody rests", 4096, true, {kExperts, kDense}, "e"},
      {"not padded", 192, true, {kExperts, kExact}, "e"},
      {"gates apart", 4096, false, {kExperts, kExact}, "e"},
      {"no records", 0, false, {kExperts, kDense}, "e"},
      {"other ways", 192, true, {kExperts, kExact, StorageMode::kMatrix}, "r"},
      {"to records", 192, true, {kExperts, kDense, kOurs, kRecords}, "r"},
      {"to experts", 4096, true, {kExperts, kFast, kOurs, kExperts}, "e"},
      {"to no records", 4096, false, {kExperts, kFast, kOurs, kRecords}, ""},
      {"to another's", 4096, true, {kLayers, kDense, kOurs, kExperts}, ""},
      {"to its own", 4096, true, {kRecords, kFast, kOurs, kRecords}, "r"},
      {"layers", 0, false, {kLayers, kDense}, "l"},
  };
}

TEST(UnitChoiceTest, ExpertsComeAsRecordsThatAreWhole) {
  for (const UnitCase& c : UnitCases()) {
    SCOPED_TRACE(c.name);
    const auto units = UnitsFor(ChoiceConfig(c.stride, c.has_gate), c.request);
    const std::string expected = c.units;
    ASSERT_EQ(units.has_value(), !expected.empty());
    if (!units) {
      EXPECT_EQ(units.error().code, ErrorCode::kUnsupported);
      EXPECT_THAT(units.error().message, HasSubstr("cannot come from"));
      continue;
    }
    const std::string found = std::string(units->records ? "r" : "") +
                              (units->experts ? "e" : "") +
                              (units->layers ? "l" : "");
    EXPECT_EQ(found, expected);
  }
}

// A budget that holds slots of one unit alone takes that one: of experts where
// they come few at a time, of neurons where a token uses nearly all.
TEST(UnitChoiceTest, TheSmallerUnitIsTheLeast) {
  const testing::TwoMixtures mixtures(
      {"padded", "relu", FfnMode::kExact, testing::Form::kPrepared,
       model::RouterInput::kFfnInput, 4096, /*adds_gates=*/true});
  for (const size_t num_used : {2, 7}) {
    SCOPED_TRACE(num_used);
    model::Config config = mixtures.streamed->config();
    for (model::LayerSpec& layer : config.layers) {
      layer.ffn.num_experts_used = num_used;
    }
    const auto plan = [&](std::optional<StreamUnit> unit, uint64_t ram) {
      SessionOptions options = {
          .num_threads = 1, .ffn = FfnMode::kExact, .unit = unit};
      options.budget.ram = ram;
      return PlanRuntime(config, options, WeightMemory::Of(*mixtures.streamed))
          .value();
    };
    const uint64_t records = plan(StreamUnit::kRecords, 0).memory.host.slots;
    const uint64_t experts = plan(StreamUnit::kExperts, 0).memory.host.slots;
    const RuntimePlan least = plan(std::nullopt, 0);
    EXPECT_EQ(least.memory.host.slots, std::min(records, experts));
    const uint64_t ram = least.memory.host.total();
    const RuntimePlan same = plan(std::nullopt, ram);
    EXPECT_EQ(same.memory.host.total(), ram);
    EXPECT_EQ(same.engine.stream->unit,
              records < experts ? StreamUnit::kRecords : StreamUnit::kExperts);
    EXPECT_FALSE(same.engine.stream->or_experts);
    EXPECT_EQ(num_used == 7, records < experts);
  }
}

// Two runs of the same tokens keep the same units, whatever the drive gave
// when it was measured.
TEST(UnitChoiceTest, ClocksDoNotChooseWhereTheyAreNotTo) {
  const ReadPlan measured = {.bytes_cost = 0.001};
  const ReadPlan stated = {.bytes_cost = 0.5};
  StreamOptions options;
  EXPECT_EQ(PlanToChooseBy(options, measured).bytes_cost, 0.001);
  options.deterministic = true;
  EXPECT_EQ(PlanToChooseBy(options, measured).bytes_cost,
            ReadPlan().bytes_cost);
  EXPECT_NE(ReadPlan().bytes_cost, 0.001);
  options.reads = stated;
  EXPECT_EQ(PlanToChooseBy(options, measured).bytes_cost, 0.5);
}

// Whole experts where bytes cost next to nothing, and within one budget either.
TEST(UnitChoiceTest, TheFasterUnitStreams) {
  const testing::TwoMixtures mixtures(
      {"padded", "relu", FfnMode::kExact, testing::Form::kPrepared,
       model::RouterInput::kFfnInput, 4096, /*adds_gates=*/true});
  SessionOptions options = {
      .num_threads = 1, .num_sequences = 2, .ffn = FfnMode::kExact};
  options.budget.ram = 0;
  const uint64_t least =
      PlanRuntime(*mixtures.streamed, options)->memory.host.total();
  options.budget.ram = least + 400 * 4096;
  options.open_records = mixtures.FakeReads({});
  const auto in_memory =
      testing::MixtureRig(
          mixtures.mapped,
          {.num_threads = 1, .num_sequences = 2, .ffn = FfnMode::kExact})
          .All();
  for (const double bytes_cost : {0.001, 1.0}) {
    const bool by_experts = bytes_cost < 0.5;
    // A gate that costs little and a rest that costs as much as all.
    options.reads = {.part_bytes = 512,
                     .first_cost = 0.3,
                     .rest_cost = 0.7,
                     .bytes_cost = bytes_cost};
    testing::MixtureRig rig(mixtures.streamed, options);
    const RuntimePlan& plan = rig.runtime().plan();
    EXPECT_LE(plan.memory.host.total(), *options.budget.ram);
    EXPECT_LE(plan.engine.stream->arena.num_bytes(), plan.memory.host.slots);
    EXPECT_LE(plan.engine.stream->blocks.num_bytes(), plan.memory.host.slots);
    const WeightStream& stream = *rig.engine().stream();
    EXPECT_EQ(stream.unit(),
              by_experts ? StreamUnit::kExperts : StreamUnit::kRecords);
    EXPECT_THAT(stream.reason(),
                HasSubstr(by_experts ? "whole experts, since neurons' reads"
                                     : "neurons, whose reads take 0."));
    EXPECT_TRUE(rig.All() == in_memory) << bytes_cost;
    EXPECT_EQ(rig.engine().stream_totals().unit, stream.unit());
  }
}

}  // namespace
}  // namespace thermocline::engine

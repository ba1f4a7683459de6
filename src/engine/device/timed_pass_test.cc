#include "engine/device/timed_pass.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compute/stage_times.h"
#include "device/sim/sim_device.h"
#include "device/sim/test_machine.h"
#include "engine/device/test_plans.h"
#include "engine/session.h"
#include "engine/testing/tiny_model.h"

namespace thermocline::engine {
namespace {

using ::testing::HasSubstr;
using testing::OpenPlanned;
using testing::PlannedModel;

constexpr size_t kTimedTokens = 6;
constexpr int64_t kTimedPrompt = 5;

class TimedClock final : public compute::HostWork {
 public:
  explicit TimedClock(device::SimDevice* sim) : sim_(sim) {}
  void Read(compute::Stage /*stage*/, uint64_t num_bytes) override {
    sim_->HostWork(num_bytes);
  }

 private:
  device::SimDevice* sim_;
};

// Sets of every layer, token by token.
struct TokenSets {
  std::vector<std::vector<uint64_t>> words;
  std::vector<neuron::NeuronSet> sets;

  TokenSets(size_t num_layers, size_t num_neurons)
      : words(num_layers, std::vector<uint64_t>(neuron::WordsOf(num_neurons))) {
    for (auto& of_layer : words) sets.push_back({of_layer.data(), num_neurons});
  }
};

struct RecordedSets {
  std::vector<TokenSets> candidates, fired;
};

SessionOptions TimedOptions(const PlannedModel& planned) {
  SessionOptions options = {.context = 64, .num_threads = 1};
  options.ffn = planned.choice.mode;
  options.predictor = planned.choice.predictor;
  options.dense_prompts = true;  // the host's alone
  return options;
}

std::vector<text::TokenId> TimedTokens(const model::Model& model,
                                       int64_t count) {
  return testing::RandomTokens(static_cast<size_t>(count),
                               static_cast<int64_t>(model.config().vocab_size),
                               5);
}

// Of the host alone.
RecordedSets RecordSets(const PlannedModel& planned) {
  const model::Config& config = planned.model->config();
  RecordedSets recorded;
  for (size_t i = 0; i < kTimedTokens; ++i) {
    const size_t width = config.layers[0].ffn.width;
    recorded.candidates.emplace_back(config.num_layers, width);
    recorded.fired.emplace_back(config.num_layers, width);
  }
  SessionOptions options = TimedOptions(planned);
  options.observer = [&](const FfnObservation& seen) {
    if (seen.position < kTimedPrompt) return;
    const auto token = static_cast<size_t>(seen.position - kTimedPrompt);
    for (const uint32_t i : seen.candidates) {
      recorded.candidates[token].sets[seen.layer_idx].Add(i);
    }
    for (const uint32_t i : seen.fired) {
      recorded.fired[token].sets[seen.layer_idx].Add(i);
    }
  };
  const auto session = Session::Create(planned.model, options).value();
  std::vector<float> logits(config.vocab_size);
  EXPECT_TRUE(session->Prompt(TimedTokens(*planned.model, kTimedPrompt),
                              LogitsOf::kNone, {}));
  for (const text::TokenId token : TimedTokens(*planned.model, kTimedTokens)) {
    EXPECT_TRUE(session->Generate({&token, 1}, LogitsOf::kLast, logits));
  }
  return recorded;
}

// What is placed: of a budget by the planner, or the last so many layers.
struct TimedPlace {
  uint64_t vram = uint64_t{8} << 20;
  std::optional<size_t> num_there;  // absent: as the planner says

  void Tell(SessionOptions& options) const {
    options.budget.vram = vram;
    if (!num_there) return;
    options.place = [count = *num_there](const PlacementRequest& request) {
      return testing::PlaceOverLink(request, count);
    };
  }
};

// What each generated token takes a session that computes.
std::vector<double> TimesOfSession(const PlannedModel& planned,
                                   const TimedPlace& place) {
  const std::shared_ptr<device::SimDevice> device =
      device::MakeSim(device::TestMachine(), {});
  TimedClock clock(device.get());
  SessionOptions options = TimedOptions(planned);
  options.device = device;
  place.Tell(options);
  options.work = &clock;
  const auto session = Session::Create(planned.model, options).value();
  std::vector<float> logits(planned.model->config().vocab_size);
  EXPECT_TRUE(session->Prompt(TimedTokens(*planned.model, kTimedPrompt),
                              LogitsOf::kNone, {}));
  std::vector<double> times;
  for (const text::TokenId token : TimedTokens(*planned.model, kTimedTokens)) {
    const double before = device->now();
    EXPECT_TRUE(session->Generate({&token, 1}, LogitsOf::kLast, logits));
    times.push_back(device->now() - before);
  }
  return times;
}

std::vector<double> TimesWithoutNumbers(const PlannedModel& planned,
                                        const model::Model& shape,
                                        const TimedPlace& place) {
  const RecordedSets recorded = RecordSets(planned);
  device::SimCounts counts;
  const std::shared_ptr<device::SimDevice> device = device::MakeSim(
      device::TestMachine(),
      {.time_only = true,
       .counts = [&](const kernels::DeviceOp&) { return counts; }});
  TimedClock clock(device.get());
  SessionOptions options = TimedOptions(planned);
  options.device = device;
  place.Tell(options);
  options.work = &clock;
  const auto pass = TimedPass::Make(
      {.model = std::shared_ptr<const model::Model>(planned.model, &shape),
       .plan = PlanRuntime(shape, options).value(),
       .counts = &counts});
  EXPECT_TRUE(pass) << pass.error().message;
  EXPECT_TRUE((*pass)->Skip(kTimedPrompt));
  std::vector<double> times;
  for (size_t i = 0; i < kTimedTokens; ++i) {
    const double before = device->now();
    EXPECT_TRUE(
        (*pass)->Generate(recorded.candidates[i].sets, recorded.fired[i].sets));
    times.push_back(device->now() - before);
  }
  return times;
}

// With nothing to everything on the device, and some or all over the link.
TEST(TimedPass, TakesAsLongAsASession) {
  for (const char* kind : {"dense", "transposed", "exact", "fast", "ahead"}) {
    const PlannedModel planned = OpenPlanned(kind);
    ASSERT_NE(planned.model, nullptr);
    const auto shape = planned.model->ShapeOf(DType::kF16);
    ASSERT_TRUE(shape) << shape.error().message;
    const TimedPlace places[] = {{300u << 10}, {700u << 10},   {1500u << 10},
                                 {8u << 20},   {8u << 20, 0u}, {8u << 20, 2u}};
    for (const TimedPlace& place : places) {
      SCOPED_TRACE(std::string(kind) + " " + std::to_string(place.vram) +
                   (place.num_there ? " over the link" : ""));
      const std::vector<double> expected = TimesOfSession(planned, place);
      const std::vector<double> got =
          TimesWithoutNumbers(planned, **shape, place);
      for (size_t i = 0; i < kTimedTokens; ++i) {
        EXPECT_GT(expected[i], 0.0);
        EXPECT_NEAR(got[i], expected[i], 1e-9 * expected[i]) << i;
      }
    }
  }
}

TEST(TimedPass, RefusesWhatATraceDoesNotSay) {
  const PlannedModel planned = OpenPlanned("mixture");
  const std::shared_ptr<device::SimDevice> device =
      device::MakeSim(device::TestMachine(), {.time_only = true});
  TimedClock clock(device.get());
  device::SimCounts counts;
  SessionOptions options = TimedOptions(planned);
  options.device = device;
  options.budget.vram = uint64_t{8} << 20;
  options.work = &clock;
  const auto pass =
      TimedPass::Make({.model = planned.model,
                       .plan = PlanRuntime(*planned.model, options).value(),
                       .counts = &counts});
  ASSERT_FALSE(pass);
  EXPECT_EQ(pass.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(pass.error().message, HasSubstr("experts"));
}

}  // namespace
}  // namespace thermocline::engine

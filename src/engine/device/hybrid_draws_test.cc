// Random models, of which a device has random parts: what they say is what the
// host says alone, and no row depends on those beside it.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "device/sim/sim_device.h"
#include "device/sim/test_machine.h"
#include "engine/testing/hybrid.h"
#include "engine/testing/tiny_model.h"

namespace thermocline::engine {
namespace {

using testing::HybridRun;
using testing::TinySpec;
using DrawnLogits = std::vector<float>;

// How the FFNs of a drawn file lie.
enum class DrawnForm : uint8_t { kMatrices, kTransposed, kBoth, kRecords };

struct HybridDraw {
  TinySpec spec;
  DrawnForm form = DrawnForm::kMatrices;
  SessionOptions options;
  bool is_late = false;
  testing::PlacementShares shares;
  uint64_t placement_seed = 0;
  size_t num_prompt = 1;
  std::vector<size_t> counts;  // of generated tokens, call by call
};

template <typename T, size_t kCount>
T OneOf(const T (&choices)[kCount], Random& random) {
  return choices[random.Below(kCount)];
}

double DrawShare(Random& random) {
  constexpr double kShares[] = {0.0, 0.2, 0.5, 0.8, 1.0};
  return OneOf(kShares, random);
}

// Trained predictors, of their own layer or of the next one; some name nearly
// all neurons, so that all are computed.
void DrawPredictors(Random& random, TinySpec& spec) {
  constexpr size_t kRanks[] = {0, 32, 64, 64};
  for (size_t i = 0; i < spec.num_layers; ++i) {
    spec.low_ranks.push_back(i == 0 ? 32 : OneOf(kRanks, random));
  }
  if (random.Below(4) > 0) spec.lookahead = random.Below(2);  // else KAIROX's
  constexpr float kOffsets[] = {-0.4f, 0.0f, 0.6f};
  const float offset = OneOf(kOffsets, random);
  spec.edit = [offset](const std::string& name, std::span<float> values) {
    if (!name.ends_with("pred_down.bias")) return;
    for (float& value : values) value += offset;
  };
}

TinySpec DrawSpec(Random& random) {
  constexpr const char* kArchitectures[] = {"llama",   "falcon",  "opt",
                                            "qwen2",   "bamboo",  "mixtral",
                                            "mixtral", "mixtral", "mixtral"};
  constexpr const char* kActivations[] = {"relu", "fatrelu", "drelu"};
  constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kQ8_0,
                              DType::kQ4_0};
  TinySpec spec;
  testing::UseArchitecture(OneOf(kArchitectures, random), spec);
  const bool is_gated =
      spec.architecture != "falcon" && spec.architecture != "opt";
  spec.activation = is_gated ? OneOf(kActivations, random) : "relu";
  spec.dtype = OneOf(kTypes, random);
  spec.num_layers = 1 + random.Below(3);
  spec.ffn_width = 32 * (2 + random.Below(4));
  if (spec.num_experts > 0) {
    spec.num_experts = 2 + random.Below(8);
    spec.num_experts_used =
        1 + random.Below(std::min<uint64_t>(spec.num_experts, 4));
  }
  if (random.Below(3) == 0) {  // unlike layers
    for (size_t i = 0; i < spec.num_layers; ++i) {
      spec.layers.push_back({spec.num_heads, spec.num_kv_heads, spec.head_width,
                             32 * (2 + random.Below(9))});
    }
  }
  if (spec.num_experts == 0 && random.Below(3) > 0) {
    DrawPredictors(random, spec);
  } else if (is_gated && random.Below(4) == 0) {
    spec.activation = "silu";
    spec.thresholds.assign(spec.num_layers, 0.15f);
  }
  spec.seed = random.Next() >> 1;
  return spec;
}

FfnMode DrawMode(const TinySpec& spec, Random& random) {
  if (!spec.thresholds.empty()) {
    return random.Below(4) > 0 ? FfnMode::kThreshold : FfnMode::kDense;
  }
  if (!spec.low_ranks.empty() && random.Below(4) > 0) return FfnMode::kFast;
  constexpr FfnMode kModes[] = {FfnMode::kDense, FfnMode::kExact,
                                FfnMode::kFast};
  return OneOf(kModes, random);
}

HybridDraw Draw(uint64_t seed) {
  Random random(seed);
  HybridDraw draw = {.spec = DrawSpec(random)};
  constexpr DrawnForm kForms[] = {DrawnForm::kMatrices, DrawnForm::kTransposed,
                                  DrawnForm::kBoth, DrawnForm::kRecords,
                                  DrawnForm::kRecords};
  draw.form = OneOf(kForms, random);
  draw.spec.down_t = draw.form == DrawnForm::kTransposed;
  draw.spec.both_downs = draw.form == DrawnForm::kBoth;
  draw.options.ffn = DrawMode(draw.spec, random);
  const bool is_gated =
      draw.spec.architecture != "falcon" && draw.spec.architecture != "opt";
  if (draw.options.ffn == FfnMode::kFast) {
    if (!draw.spec.low_ranks.empty()) {
      draw.options.predictor = PredictorChoice::kTrained;
    } else if (is_gated) {
      draw.options.predictor = PredictorChoice::kTrainingFree;
    } else {
      draw.options.ffn = FfnMode::kExact;
    }
  }
  draw.options.dense_prompts = random.Below(2) == 0;
  draw.options.num_threads = static_cast<int>(1 + random.Below(3));
  draw.is_late = random.Below(2) == 0;
  draw.shares = {.neurons = DrawShare(random),
                 .matrices = DrawShare(random),
                 .experts = DrawShare(random),
                 .attention = DrawShare(random),
                 .predictors = DrawShare(random),
                 .head = DrawShare(random)};
  draw.placement_seed = random.Next();
  draw.num_prompt = 1 + random.Below(9);
  for (size_t i = 0; i < 3; ++i) draw.counts.push_back(1 + random.Below(11));
  return draw;
}

std::string Describe(uint64_t seed, const HybridDraw& draw) {
  return fmt::format(
      "draw {}: {} {} {} {}, {} of {} experts, {} predictors looking {} ahead, "
      "form {}, neurons {} matrices {} experts {} attention {} predictors {} "
      "head {}{}",
      seed, draw.spec.architecture, draw.spec.activation,
      NameOf(draw.spec.dtype), NameOf(draw.options.ffn),
      draw.spec.num_experts_used, draw.spec.num_experts,
      draw.spec.low_ranks.size(), draw.spec.lookahead.value_or(1),
      static_cast<int>(draw.form), draw.shares.neurons, draw.shares.matrices,
      draw.shares.experts, draw.shares.attention, draw.shares.predictors,
      draw.shares.head, draw.is_late ? ", late" : "");
}

// Roundings to 8 bits fall elsewhere now and then, and then a router or a
// predictor may choose another: a few rows differ by much.
double ToleranceOf(const HybridDraw& draw) {
  if (IsFloat(draw.spec.dtype)) {  // keys and values are in F16
    return draw.options.ffn == FfnMode::kThreshold ? 1e-6 : 1e-8;
  }
  const bool chooses =
      draw.spec.num_experts > 0 || draw.options.ffn == FfnMode::kFast;
  return chooses ? 0.05 : 1e-3;
}

// The same tokens for every cut into calls.
DrawnLogits RunDraw(const HybridDraw& draw, HybridRun& run,
                    std::span<const size_t> counts) {
  const auto prompt = testing::RandomTokens(draw.num_prompt, 50, 3);
  DrawnLogits all = run.Run(prompt, Phase::kPrompt).value();
  const auto tokens = testing::RandomTokens(40, 50, 5);
  auto next = tokens.begin();
  for (const size_t count : counts) {
    const auto end = next + static_cast<ptrdiff_t>(count);
    const auto more = run.Run({next, end}, Phase::kGenerate).value();
    all.insert(all.end(), more.begin(), more.end());
    next = end;
  }
  return all;
}

// Of the runs.
struct DrawCounts {
  size_t num_shared = 0;  // the device computed something
  size_t num_begun = 0;   // predictors began neurons there
};

bool HasBegun(const HybridDraw& draw, const Placement& placement) {
  if (draw.options.predictor != PredictorChoice::kTrained) return false;
  // Those that look ahead are not told apart: their first layer's own does.
  return std::ranges::any_of(placement.layers, [](const LayerPlacement& layer) {
    return layer.predictor && !layer.resident.empty();
  });
}

void CheckDraw(uint64_t seed, DrawCounts& sum) {
  const HybridDraw draw = Draw(seed);
  SCOPED_TRACE(Describe(seed, draw));
  const auto opened = testing::OpenTinyModel(
      draw.spec, {.bundle_at_load = draw.form == DrawnForm::kRecords});
  ASSERT_TRUE(opened) << opened.error().message;
  const auto& model = *opened;
  HybridRun host(model, draw.options, nullptr, {});
  ASSERT_TRUE(host.status()) << host.status().error().message;
  const DrawnLogits expected = RunDraw(draw, host, draw.counts);
  const auto run = [&](std::span<const size_t> counts) {
    const std::shared_ptr<device::SimDevice> device =
        device::MakeSim(device::TestMachine(), {.is_late = draw.is_late});
    Random random(draw.placement_seed);
    const Placement placement = testing::DrawPlacement(
        *model, draw.options, device->layout(), draw.shares, random);
    HybridRun hybrid(model, draw.options, device, placement);
    EXPECT_TRUE(hybrid.status()) << hybrid.status().error().message;
    if (!hybrid.status()) return DrawnLogits();
    const uint64_t num_calls = device->num_calls();
    const DrawnLogits all = RunDraw(draw, hybrid, counts);
    if (device->num_calls() > num_calls) ++sum.num_shared;
    if (HasBegun(draw, placement)) ++sum.num_begun;
    return all;
  };
  const DrawnLogits got = run(draw.counts);
  EXPECT_LE(testing::Nmse(got, std::span<const float>(expected)),
            ToleranceOf(draw));
  size_t num_generated = 0;
  for (const size_t count : draw.counts) num_generated += count;
  EXPECT_EQ(run(std::vector<size_t>(num_generated, 1)), got);
}

void CheckDraws(uint64_t first_seed, size_t count) {
  DrawCounts sum;
  for (size_t i = 0; i < count; ++i) CheckDraw(first_seed + i, sum);
  EXPECT_GT(sum.num_shared, count);  // of two runs each
  EXPECT_GT(sum.num_begun, count / 10);
}

TEST(HybridDraws, SayWhatTheHostSays) { CheckDraws(1, 60); }

TEST(HybridLongDraws, SayWhatTheHostSays) { CheckDraws(1000, 400); }

}  // namespace
}  // namespace thermocline::engine

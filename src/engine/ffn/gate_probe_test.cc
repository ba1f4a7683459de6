#include "engine/ffn/gate_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "engine/session.h"

namespace thermocline::engine {
namespace {

using Set = std::vector<uint32_t>;

std::shared_ptr<const model::Model> OpenModel(const std::string& name,
                                              bool with_relu) {
  model::OpenOptions options;
  if (with_relu) options.overrides.ffn_activation = Activation::kRelu;
  auto model =
      model::Model::Open(std::string(TC_TEST_DATA) + "/" + name, options);
  EXPECT_TRUE(model) << model.error().message;
  return *model;
}

struct Counts {
  size_t num_tokens = 0;
  size_t num_fired = 0;
};

// Runs tokens through a session and asks `look` at each layer.
void RunTokens(const std::shared_ptr<const model::Model>& model,
               SessionOptions options, const FfnObserver& look) {
  options.context = 16;
  options.num_threads = 1;
  options.observer = look;
  auto session = Session::Create(model, options);
  ASSERT_TRUE(session) << session.error().message;
  for (text::TokenId token = 3; token < 15; ++token) {
    ASSERT_TRUE((*session)->Generate({&token, 1}, LogitsOf::kNone, {}));
  }
}

class GateProbeTest : public ::testing::TestWithParam<const char*> {};

// Dense sessions compute single tokens by the same products: the sets are the
// same to the last neuron.
TEST_P(GateProbeTest, FindsWhatFires) {
  const std::string name = GetParam();
  const auto model = OpenModel(name, name.starts_with("golden/"));
  for (const kernels::Isa isa : kernels::SupportedIsas()) {
    auto probe = GateProbe::Create(model, isa);
    ASSERT_TRUE(probe);
    Counts counts;
    RunTokens(model, {.isa = isa, .ffn = FfnMode::kDense},
              [&](const FfnObservation& seen) {
                (*probe)->Look(seen);
                const Set fired(seen.fired.begin(), seen.fired.end());
                EXPECT_THAT((*probe)->fired(),
                            ::testing::ElementsAreArray(fired));
                EXPECT_TRUE(std::ranges::includes((*probe)->open(), fired));
                ++counts.num_tokens;
                counts.num_fired += fired.size();
              });
    EXPECT_EQ(counts.num_tokens, 12u * model->config().num_layers);
    EXPECT_GT(counts.num_fired, counts.num_tokens);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, GateProbeTest,
    ::testing::Values("golden/llama-gqa-f16.gguf", "golden/llama-gqa-Q4_0.gguf",
                      "golden/llama-gqa-Q6_K.gguf",
                      "golden/falcon-mqa-f16.gguf",
                      "golden/mixtral-8x2-f16.gguf",
                      "golden-powerinfer/bamboo-f16.powerinfer.gguf",
                      "golden-powerinfer/opt-f16.powerinfer.gguf"));

// What fires in a fast session is what the probe finds among its candidates.
TEST(GateProbeTest, OfAFastSession) {
  const auto model =
      OpenModel("golden-powerinfer/llama-f16.powerinfer.gguf", false);
  auto probe = GateProbe::Create(model, kernels::BestIsa());
  ASSERT_TRUE(probe);
  size_t num_missed = 0;
  RunTokens(model, {.ffn = FfnMode::kFast}, [&](const FfnObservation& seen) {
    (*probe)->Look(seen);
    Set both;
    std::ranges::set_intersection((*probe)->fired(), seen.candidates,
                                  std::back_inserter(both));
    EXPECT_THAT(seen.fired, ::testing::ElementsAreArray(both));
    num_missed += (*probe)->fired().size() - both.size();
  });
  EXPECT_GT(num_missed, 0u);  // else the test shows nothing
}

// Without zeros everything is open but what a threshold brings to rest.
TEST(GateProbeTest, Thresholds) {
  const auto model = OpenModel("golden/qwen2-bias-f16.gguf", false);
  const size_t num_layers = model->config().num_layers;
  auto all = GateProbe::Create(model, kernels::BestIsa());
  auto some = GateProbe::Create(model, kernels::BestIsa(),
                                std::vector<float>(num_layers, 0.05f));
  auto none = GateProbe::Create(model, kernels::BestIsa(),
                                std::vector<float>(num_layers, 1e30f));
  ASSERT_TRUE(all && some && none);
  RunTokens(model, {.ffn = FfnMode::kDense}, [&](const FfnObservation& seen) {
    (*all)->Look(seen);
    EXPECT_EQ((*all)->fired().size(), seen.fired.size());
    (*some)->Look(seen);
    EXPECT_LT((*some)->open().size(), (*all)->open().size());
    EXPECT_GT((*some)->open().size(), 0u);
    (*none)->Look(seen);
    EXPECT_TRUE((*none)->open().empty());
    EXPECT_TRUE((*none)->fired().empty());
  });
}

}  // namespace
}  // namespace thermocline::engine

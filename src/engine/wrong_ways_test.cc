// Known wrong ways to run a model give other logits than the engine's: what the
// comparisons with the reference notice.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/session.h"
#include "engine/testing/reference.h"
#include "engine/testing/tiny_model.h"

namespace thermocline::engine {
namespace {

using testing::DecodeAll;
using testing::kFloatNmse;
using testing::MakeTinyModel;
using testing::Mistake;
using testing::Nmse;
using testing::RandomTokens;
using testing::ReferenceLogits;
using testing::TinySpec;
using testing::UseArchitecture;

using Logits = std::vector<double>;
using ModelPtr = std::shared_ptr<const model::Model>;
using Tokens = std::vector<text::TokenId>;

// The reference for a model whose description or weights were changed.
Logits ReferenceWith(
    const model::Model& model, const Tokens& tokens,
    const std::function<void(model::Config&, model::Weights&)>& change) {
  model::Config config = model.config();
  model::Weights weights = model.weights();
  change(config, weights);
  return ReferenceLogits(config, weights, tokens);
}

// A way to run a model that its users have met elsewhere.
struct WrongWay {
  std::string name;
  std::function<void(TinySpec&)> change;
  std::function<Logits(const model::Model&, const Tokens&)> logits;
};

void PrintTo(const WrongWay& way, std::ostream* out) { *out << way.name; }

std::function<Logits(const model::Model&, const Tokens&)> By(Mistake mistake) {
  return [=](const model::Model& model, const Tokens& tokens) {
    return ReferenceLogits(model, tokens, mistake);
  };
}

std::function<Logits(const model::Model&, const Tokens&)> By(
    std::function<void(model::Config&, model::Weights&)> change) {
  return [=](const model::Model& model, const Tokens& tokens) {
    return ReferenceWith(model, tokens, change);
  };
}

// Views of the file: row p of the table becomes that of position p + shift.
void ShiftPositions(model::Weights& weights, int shift) {
  TensorView& table = weights.position_embedding;
  table.data += shift * static_cast<ptrdiff_t>(table.row_bytes());
}

std::function<void(TinySpec&)> Named(const std::string& architecture) {
  return [=](TinySpec& spec) { UseArchitecture(architecture, spec); };
}

void MakeFalconWithTwoNorms(TinySpec& spec) {
  UseArchitecture("falcon", spec);
  spec.two_norms = true;
}

// All router rows the same: every expert has the same share.
void MakeMixtralOfTies(TinySpec& spec) {
  UseArchitecture("mixtral", spec);
  spec.edit = [](const std::string& name, std::span<float> values) {
    if (!name.ends_with("ffn_gate_inp.weight")) return;
    const size_t width = values.size() / 8;
    for (size_t i = width; i < values.size(); ++i) {
      values[i] = values[i - width];
    }
  };
}

class WrongWays : public ::testing::TestWithParam<WrongWay> {};

TEST_P(WrongWays, AreNoticed) {
  TinySpec spec;
  GetParam().change(spec);
  const ModelPtr model = MakeTinyModel(spec);
  ASSERT_NE(model, nullptr);
  const Tokens tokens = RandomTokens(9, spec.vocab_size);
  const auto logits = DecodeAll(model, tokens, {.ffn = FfnMode::kDense});
  EXPECT_LE(Nmse(logits, ReferenceLogits(*model, tokens)), kFloatNmse);
  EXPECT_GT(Nmse(logits, GetParam().logits(*model, tokens)), 1000 * kFloatNmse);
}

std::string NameOfWay(const ::testing::TestParamInfo<WrongWay>& param_info) {
  return param_info.param.name;
}

INSTANTIATE_TEST_SUITE_P(
    Falcon, WrongWays,
    ::testing::Values(
        WrongWay{"FalconWithErfGelu", Named("falcon"), By(Mistake::kErfGelu)},
        WrongWay{"FalconInSequence", Named("falcon"),
                 By(Mistake::kSequentialBlock)},
        WrongWay{"FalconWithFfnOnAttentionsNorm", MakeFalconWithTwoNorms,
                 By(Mistake::kFfnNormOfAttention)},
        WrongWay{"FalconWithNormsSwapped", MakeFalconWithTwoNorms,
                 By([](model::Config&, model::Weights& weights) {
                   for (auto& layer : weights.layers) {
                     std::swap(layer.attention.norm, layer.ffn.norm);
                     std::swap(layer.attention.norm_bias, layer.ffn.norm_bias);
                   }
                 })},
        WrongWay{"FalconWithKeysAndValuesSwapped", Named("falcon"),
                 By([](model::Config&, model::Weights& weights) {
                   for (auto& layer : weights.layers) {
                     std::swap(layer.attention.k, layer.attention.v);
                   }
                 })},
        WrongWay{"FalconRotatedInPairs", Named("falcon"),
                 By([](model::Config& config, model::Weights&) {
                   config.ropes[0].kind = RopeKind::kNorm;
                 })},
        WrongWay{"LayerNormWithoutBias", Named("falcon"),
                 By([](model::Config&, model::Weights& weights) {
                   weights.output_norm_bias = TensorView();
                 })}),
    NameOfWay);

INSTANTIATE_TEST_SUITE_P(
    Opt, WrongWays,
    ::testing::Values(WrongWay{"LayerNormAsRms", Named("opt"),
                               By([](model::Config& config, model::Weights&) {
                                 config.norm = NormKind::kRms;
                               })},
                      WrongWay{"OptWithoutUpBias", Named("opt"),
                               By([](model::Config&, model::Weights& weights) {
                                 weights.layers[1].ffn.up_bias = TensorView();
                               })},
                      WrongWay{"OptWithoutDownBias", Named("opt"),
                               By([](model::Config&, model::Weights& weights) {
                                 weights.layers[1].ffn.down_bias = TensorView();
                               })},
                      WrongWay{"OptWithoutAttentionsOutBias", Named("opt"),
                               By([](model::Config&, model::Weights& weights) {
                                 weights.layers[0].attention.out_bias =
                                     TensorView();
                               })},
                      WrongWay{"OptWithoutVBias", Named("opt"),
                               By([](model::Config&, model::Weights& weights) {
                                 weights.layers[0].attention.v_bias =
                                     TensorView();
                               })},
                      WrongWay{"OptWithGelu", Named("opt"),
                               By([](model::Config& config, model::Weights&) {
                                 config.layers[1].ffn.activation =
                                     Activation::kGelu;
                               })},
                      WrongWay{"OptWithoutPositions", Named("opt"),
                               By([](model::Config&, model::Weights& weights) {
                                 weights.position_embedding = TensorView();
                               })},
                      WrongWay{"OptWithOffsetThatWasStripped", Named("opt"),
                               By([](model::Config&, model::Weights& weights) {
                                 ShiftPositions(weights, 2);
                               })},
                      WrongWay{"OptWithoutOffset",
                               [](TinySpec& s) {
                                 UseArchitecture("opt", s);
                                 s.unused_positions = 2;
                               },
                               By([](model::Config&, model::Weights& weights) {
                                 ShiftPositions(weights, -2);
                               })}),
    NameOfWay);

INSTANTIATE_TEST_SUITE_P(
    Expert, WrongWays,
    ::testing::Values(WrongWay{"ExpertWeightsNotRenormalised", Named("mixtral"),
                               By(Mistake::kRawExpertWeights)},
                      WrongWay{"OneExpertMore", Named("mixtral"),
                               By([](model::Config& config, model::Weights&) {
                                 ++config.layers[0].ffn.num_experts_used;
                               })},
                      WrongWay{"ExpertsInReverse", Named("mixtral"),
                               By([](model::Config&, model::Weights& weights) {
                                 std::ranges::reverse(
                                     weights.layers[1].ffn.experts);
                               })},
                      WrongWay{"LastExpertOfTies", MakeMixtralOfTies,
                               By(Mistake::kLastExpertOfTies)}),
    NameOfWay);

INSTANTIATE_TEST_SUITE_P(
    Activation, WrongWays,
    ::testing::Values(WrongWay{"BambooWithReluOnGateOnly", Named("bamboo"),
                               By([](model::Config& config, model::Weights&) {
                                 config.layers[1].ffn.activation =
                                     Activation::kRelu;
                               })},
                      WrongWay{"ProSparseWithoutThreshold",
                               Named("prosparse-llama"),
                               By([](model::Config& config, model::Weights&) {
                                 config.layers[1].ffn.threshold = 0.0f;
                               })},
                      WrongWay{"ReluFalconWithGelu", Named("relu-falcon"),
                               By([](model::Config& config, model::Weights&) {
                                 config.layers[1].ffn.activation =
                                     Activation::kGelu;
                               })}),
    NameOfWay);

// Embeddings so small that the epsilon decides what the norms give.
TinySpec SmallOpt() {
  TinySpec spec;
  UseArchitecture("opt", spec);
  spec.embedding_scale = 1e-3f;
  return spec;
}

void ExpectEpsilon(const TinySpec& spec, float expected) {
  const ModelPtr model = MakeTinyModel(spec);
  ASSERT_NE(model, nullptr);
  const Tokens tokens = RandomTokens(9, spec.vocab_size);
  const auto logits = DecodeAll(model, tokens, {.ffn = FfnMode::kDense});
  for (const float epsilon : {0.0f, 1e-6f, 1e-5f, 1e-4f}) {
    const double nmse =
        Nmse(logits,
             ReferenceWith(*model, tokens, [=](model::Config& config, auto&) {
               config.norm_epsilon = epsilon;
             }));
    if (epsilon == expected) {
      EXPECT_LE(nmse, kFloatNmse) << epsilon;
    } else {
      EXPECT_GT(nmse, 1e-3) << epsilon;
    }
  }
}

TEST(Opt, EpsilonIsTheFilesElse1e5AndNoneInPowerInfersFiles) {
  TinySpec spec = SmallOpt();
  spec.norm_epsilon = 1e-4f;
  ExpectEpsilon(spec, 1e-4f);
  spec.norm_epsilon = std::nullopt;
  ExpectEpsilon(spec, 1e-5f);
  spec.container = gguf::Container::kPowerInfer;
  spec.down_t = true;
  spec.predictor_rank = 24;
  spec.unused_positions = 2;
  ExpectEpsilon(spec, 0.0f);
  spec.norm_epsilon = 1e-4f;  // PowerInfer does not read it
  ExpectEpsilon(spec, 0.0f);
}

}  // namespace
}  // namespace thermocline::engine

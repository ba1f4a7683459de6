#include "engine/device/placement_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/testing/tiny_model.h"

namespace thermocline::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TinySpec;

// "H" for the host, "D" for the device, "." for whatever is better: of each
// layer attention, predictor and FFN, then the head.
std::string Text(const Demands& demands) {
  const auto letter = [](Demand demand) {
    return demand == Demand::kNone ? '.' : demand == Demand::kHost ? 'H' : 'D';
  };
  std::string text;
  for (const LayerDemands& layer : demands.layers) {
    text += letter(layer.attention);
    text += letter(layer.predictor);
    text += letter(layer.ffn);
    text += ' ';
  }
  return text + letter(demands.head);
}

std::shared_ptr<const model::Model> OpenMixture(bool expert_tensors = false) {
  TinySpec spec;
  testing::UseArchitecture("mixtral", spec);
  spec.expert_tensors = expert_tensors;
  return testing::MakeTinyModel(spec);
}

std::string Demanded(const model::Model& model, const PlacementRules& rules) {
  auto demands = DemandsOfTensors(model, rules);
  EXPECT_TRUE(demands) << demands.error().message;
  return Text(Complete(model.config(), rules, *std::move(demands)));
}

TEST(PlacementRulesTest, SayWhereEachPartLies) {
  const auto model = OpenMixture();
  const size_t all = 1000;
  struct Case {
    PlacementRules rules;
    const char* text;
  };
  const Case cases[] = {
      {{}, "... ... ."},
      {{.num_layers = 0}, "HHH HHH H"},
      {{.num_layers = 1}, "HHH DDD H"},
      {{.num_layers = 2}, "DDD DDD H"},
      {{.num_layers = 3}, "DDD DDD D"},
      {{.num_layers = all}, "DDD DDD D"},
      {{.num_host_experts = 1}, "..H ... ."},
      {{.num_host_experts = all}, "..H ..H ."},
      {{.num_host_experts = 1, .num_layers = all}, "DDH DDD D"},
      {{.tensors = {{"exps", false}}, .num_layers = all}, "DDH DDH D"},
      // The first match counts, of each tensor.
      {{.tensors = {{"blk\\.0\\.", true}, {"exps", false}}}, "D.D ..H ."},
      {{.tensors = {{"exps", false}, {"blk\\.0\\.", true}}}, "D.H ..H ."},
      // One tensor on the host keeps the others of its part there.
      {{.tensors = {{"blk\\.1\\.ffn_up_exps", false}, {"blk\\.1\\.", true}}},
       "... D.H ."},
      {{.tensors = {{"blk.1.ffn_up_exps", true}}}, "... ..D ."},
      // Tensors speak before layers and experts.
      {{.tensors = {{"attn_k", true}}, .num_layers = 0}, "DHH DHH H"},
      {{.tensors = {{"blk\\.0\\.ffn_gate_exps", true}}, .num_host_experts = 2},
       "..D ..H ."},
      {{.tensors = {{"^output\\.weight$", true}}}, "... ... D"},
      // Norms, routers and embeddings are no part of what moves.
      {{.tensors = {{"norm|ffn_gate_inp|token_embd", true}}}, "... ... ."},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(Demanded(*model, c.rules), c.text);
  }
}

TEST(PlacementRulesTest, TensorsOfSingleExpertsSpeakForAll) {
  const auto model = OpenMixture(true);
  EXPECT_EQ(Demanded(*model, {.tensors = {{"blk.1.ffn_down.3.weight", false}}}),
            "... ..H .");
}

TEST(PlacementRulesTest, ATiedHeadIsTheEmbedding) {
  TinySpec spec;
  spec.tied = true;
  const auto model = testing::MakeTinyModel(spec);
  EXPECT_EQ(Demanded(*model, {.tensors = {{"token_embd", true}}}), "... ... D");
}

TEST(PlacementRulesTest, PredictorsAreAPartOfTheirOwn) {
  TinySpec spec;
  spec.activation = "relu";
  spec.predictor_rank = 16;
  const auto model = testing::MakeTinyModel(spec);
  EXPECT_EQ(Demanded(*model, {.tensors = {{"blk.0.ffn_pred_up", true},
                                          {"blk.1.ffn_pred_down", false},
                                          {"pred", true}}}),
            ".D. .H. .");
}

TEST(PlacementRulesTest, PatternsOfWhatNeverMovesAreKnown) {
  const auto model = OpenMixture();
  const auto in_vain = [&](std::vector<TensorRule> rules) {
    return DemandsOfTensors(*model, {.tensors = std::move(rules)})->in_vain;
  };
  EXPECT_THAT(in_vain({{"token_embd", true}, {"attn|norm", true}}),
              ElementsAre("token_embd"));
  EXPECT_THAT(in_vain({{"norm", false}, {"exps", false}, {"up_exps", true}}),
              IsEmpty());
}

TEST(PlacementRulesTest, BadPatternsAreNamed) {
  const auto model = OpenMixture();
  const auto message = [&](const char* pattern) {
    const auto demands = DemandsOfTensors(
        *model, {.tensors = {{"attn", true}, {pattern, true}}});
    EXPECT_FALSE(demands) << pattern;
    if (demands) return std::string();
    EXPECT_EQ(demands.error().code, ErrorCode::kInvalidArgument);
    return demands.error().message;
  };
  EXPECT_THAT(message("blk.[3"), HasSubstr("\"blk.[3\" is no regular"));
  EXPECT_THAT(message("(a"), HasSubstr("\"(a\" is no regular"));
  EXPECT_THAT(message("blk.7.attn_q"),
              HasSubstr("none of its tensors matches \"blk.7.attn_q\""));
  // Its tensors are all taken by the first rule: it matches all the same.
  EXPECT_TRUE(
      DemandsOfTensors(*model, {.tensors = {{"attn", true}, {"k", false}}}));
}

}  // namespace
}  // namespace thermocline::engine

#include "pack/names.h"

#include <gtest/gtest.h>

namespace thermocline::pack {
namespace {

TEST(ParseLayerNameTest, SplitsOffTheLayer) {
  const auto name = ParseLayerName("blk.12.ffn_up.weight");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->layer_idx, 12);
  EXPECT_EQ(name->rest, "ffn_up.weight");
  for (const char* other :
       {"token_embd.weight", "blk.", "blk.x.ffn_up.weight", "blk.-1.ffn_up",
        "blk.99999999999999999999.ffn_up", "blk.3", "xblk.3.ffn_up"}) {
    EXPECT_FALSE(ParseLayerName(other).has_value()) << other;
  }
}

TEST(IsFfnMatrixTest, MatricesOfAllForms) {
  for (const char* name :
       {"ffn_gate.weight", "ffn_up.weight", "ffn_down.weight",
        "ffn_down_t.weight", "ffn_up_exps.weight", "ffn_down_exps.weight",
        "ffn_gate.3.weight", "ffn_down.11.weight"}) {
    EXPECT_TRUE(IsFfnMatrix(name)) << name;
  }
  for (const char* name :
       {"ffn_gate_inp.weight", "ffn_norm.weight", "ffn_up.bias",
        "ffn_down_t.bias", "ffn_pred_up.weight", "attn_q.weight",
        "ffn_up.3.bias", "ffn_up..weight", "ffn_up.x.weight"}) {
    EXPECT_FALSE(IsFfnMatrix(name)) << name;
  }
}

TEST(IsForeignPredictorTest, TensorsAndKeys) {
  EXPECT_TRUE(IsForeignPredictor("fc1.weight"));
  EXPECT_TRUE(IsForeignPredictor("fc2.weight"));
  EXPECT_TRUE(IsForeignPredictor("ffn_pred_down.bias"));
  EXPECT_FALSE(IsForeignPredictor("ffn_up.weight"));
  EXPECT_TRUE(IsForeignPredictorKey("predictor.low_ranks"));
  EXPECT_TRUE(IsForeignPredictorKey("bamboo.pred_lora"));
  EXPECT_FALSE(IsForeignPredictorKey("llama.block_count"));
  EXPECT_TRUE(IsOwnTensor("tc_pred_up.weight"));
  EXPECT_FALSE(IsOwnTensor("ffn_records.weight"));
}

}  // namespace
}  // namespace thermocline::pack

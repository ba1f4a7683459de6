#include "inspect/tensor_role.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace thermocline::inspect {
namespace {

TEST(PlaceOfTest, KnowsTheNamesOfFourPrograms) {
  struct Case {
    const char* name;
    TensorRole role;
    TensorClass tensor_class;
  };
  for (const Case& c : {
           Case{"token_embd.weight", TensorRole::kTokenEmbedding,
                TensorClass::kEmbedding},
           Case{"position_embd.weight", TensorRole::kPositionEmbedding,
                TensorClass::kEmbedding},
           Case{"output.weight", TensorRole::kHead, TensorClass::kHead},
           Case{"output_norm.bias", TensorRole::kNorm, TensorClass::kNorm},
           Case{"blk.0.attn_q.weight", TensorRole::kAttentionQ,
                TensorClass::kAttention},
           Case{"blk.0.attn_k.bias", TensorRole::kAttentionK,
                TensorClass::kAttention},
           Case{"blk.0.attn_v.weight", TensorRole::kAttentionV,
                TensorClass::kAttention},
           Case{"blk.0.attn_qkv.weight", TensorRole::kAttentionQkv,
                TensorClass::kAttention},
           Case{"blk.11.attn_output.bias", TensorRole::kAttentionOut,
                TensorClass::kAttention},
           Case{"blk.0.attn_kv_b.weight", TensorRole::kAttentionOther,
                TensorClass::kAttention},
           Case{"blk.0.attn_q_norm.weight", TensorRole::kNorm,
                TensorClass::kNorm},
           Case{"blk.0.attn_norm_2.weight", TensorRole::kNorm,
                TensorClass::kNorm},
           Case{"blk.0.ffn_norm.weight", TensorRole::kNorm, TensorClass::kNorm},
           Case{"blk.0.ffn_gate.weight", TensorRole::kFfnGate,
                TensorClass::kFfn},
           Case{"blk.0.ffn_down.bias", TensorRole::kFfnDown, TensorClass::kFfn},
           Case{"blk.0.ffn_down_t.weight", TensorRole::kFfnDownT,
                TensorClass::kFfn},
           Case{"blk.0.ffn_act.scales", TensorRole::kFfnOther,
                TensorClass::kFfn},
           Case{"blk.0.ffn_gate_inp.weight", TensorRole::kExpertRouter,
                TensorClass::kExperts},
           Case{"blk.0.ffn_up_exps.weight", TensorRole::kExpertUp,
                TensorClass::kExperts},
           Case{"blk.0.ffn_down_shexp.weight", TensorRole::kExpertShared,
                TensorClass::kExperts},
           Case{"blk.0.fc1.weight", TensorRole::kPredictorUp,
                TensorClass::kPredictor},
           Case{"blk.0.ffn_pred_down.bias", TensorRole::kPredictorDown,
                TensorClass::kPredictor},
           Case{"blk.0.ffn_records.weight", TensorRole::kFfnRecords,
                TensorClass::kFfn},
           Case{"blk.0.tc_pred_up.bias", TensorRole::kPredictorUp,
                TensorClass::kPredictor},
           Case{"blk.0.tc_pred_down.weight", TensorRole::kPredictorDown,
                TensorClass::kPredictor},
           Case{"blk.0.tc_free_signs.weight", TensorRole::kPredictorFree,
                TensorClass::kPredictor},
           Case{"blk.0.tc_free.bias", TensorRole::kPredictorFree,
                TensorClass::kPredictor},
           Case{"blk.0.tc_selftest.fired", TensorRole::kFindings,
                TensorClass::kOther},
           Case{"blk.0.tc_order", TensorRole::kFindings, TensorClass::kOther},
           Case{"blk.0.gpu_idx", TensorRole::kPlacement, TensorClass::kOther},
           Case{"blk.0.ffn_reorder_perms", TensorRole::kPlacement,
                TensorClass::kOther},
           Case{"rope_freqs.weight", TensorRole::kOther, TensorClass::kOther},
           Case{"blk.0.ssm_in.weight", TensorRole::kOther, TensorClass::kOther},
       }) {
    EXPECT_EQ(PlaceOf(c.name).role, c.role) << c.name;
    EXPECT_EQ(ClassOf(c.role), c.tensor_class) << c.name;
    EXPECT_EQ(PlaceOf(c.name).group_name, c.name);
  }
}

TEST(PlaceOfTest, FindsTheLayer) {
  EXPECT_EQ(PlaceOf("blk.0.attn_q.weight").layer, 0);
  EXPECT_EQ(PlaceOf("blk.79.ssm_in.weight").layer, 79);
  EXPECT_EQ(PlaceOf("blk.4095.ffn_up.weight").layer, 4095);
  EXPECT_EQ(PlaceOf("output.weight").layer, std::nullopt);
  // Not layers of the one stack, or none at all.
  for (const char* name :
       {"blk.4096.ffn_up.weight", "enc.blk.3.ffn_up.weight"}) {
    EXPECT_EQ(PlaceOf(name).role, TensorRole::kFfnUp) << name;
    EXPECT_EQ(PlaceOf(name).layer, std::nullopt) << name;
  }
  for (const char* name :
       {"", ".", "blk", "blk.", "blk.1", "blk.-1.ffn_up.weight",
        "blk.1x.ffn_up.weight", "blk..ffn_up", "blk.99999999999.ffn_up.weight",
        "\xff\x01", "xblk.1.ffn_up.weight"}) {
    EXPECT_EQ(PlaceOf(name).role, TensorRole::kOther) << name;
    EXPECT_EQ(PlaceOf(name).layer, std::nullopt) << name;
    EXPECT_EQ(PlaceOf(name).group_name, name);
  }
}

TEST(PlaceOfTest, ExpertsOfOlderFilesShareAName) {
  const TensorPlace place = PlaceOf("blk.3.ffn_down.127.weight");
  EXPECT_EQ(place.role, TensorRole::kExpertDown);
  EXPECT_EQ(place.layer, 3);
  EXPECT_EQ(place.group_name, "blk.3.ffn_down.*.weight");
  EXPECT_EQ(PlaceOf("blk.3.ffn_down.0.weight").group_name, place.group_name);
}

TEST(TensorRoleTest, NamesAreDistinct) {
  std::set<std::string> names;
  for (int i = 0; i < kNumTensorRoles; ++i) {
    names.insert(NameOf(static_cast<TensorRole>(i)));
  }
  EXPECT_EQ(names.size(), size_t{kNumTensorRoles});
  names.clear();
  for (int i = 0; i < kNumTensorClasses; ++i) {
    names.insert(NameOf(static_cast<TensorClass>(i)));
  }
  EXPECT_EQ(names.size(), size_t{kNumTensorClasses});
  EXPECT_FALSE(names.contains(""));
}

}  // namespace
}  // namespace thermocline::inspect

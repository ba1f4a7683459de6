#include "model/refused_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "model/config.h"
#include "model/test_log.h"
#include "model/test_model.h"

namespace thermocline::model {
namespace {

using gguf::ParsedCopy;
using gguf::TestFile;
using ::testing::AllOf;
using ::testing::HasSubstr;

void ExpectAccepted(TestFile file) {
  const ParsedCopy parsed(file.Bytes());
  const auto config = ReadConfig(**parsed.file);
  EXPECT_TRUE(config) << config.error().message;
}

void ExpectRefusedKey(TestFile file, const std::string& key) {
  const ParsedCopy parsed(file.Bytes());
  const auto config = ReadConfig(**parsed.file);
  ASSERT_FALSE(config) << key;
  EXPECT_EQ(config.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(config.error().message,
              AllOf(HasSubstr("test.gguf"), HasSubstr(key)));
}

TEST(RefusedKeys, Experts) {
  ExpectAccepted(TestModel().SetU32("llama.expert_count", 0));
  ExpectAccepted(TestExpertModel()
                     .SetU32("llama.expert_gating_func", 1)
                     .SetU32("llama.expert_shared_count", 0)
                     .SetU32("llama.expert_feed_forward_length", 64)
                     .SetF32("llama.expert_weights_scale", 1.0f)
                     .SetBool("llama.expert_weights_norm", true));
  for (const char* suffix :
       {"expert_shared_count", "expert_shared_feed_forward_length",
        "expert_gating_func", "expert_feed_forward_length",
        "expert_group_count", "leading_dense_block_count"}) {
    const std::string key = std::string("llama.") + suffix;
    ExpectRefusedKey(TestExpertModel().SetU32(key, 3), key);
  }
  ExpectRefusedKey(TestExpertModel().SetF32("llama.expert_weights_scale", 2.5f),
                   "llama.expert_weights_scale");
  ExpectRefusedKey(
      TestExpertModel().SetBool("llama.expert_weights_norm", false),
      "llama.expert_weights_norm");
}

TEST(RefusedKeys, FactorsThatAreActive) {
  for (const char* suffix :
       {"attn_logit_softcapping", "final_logit_softcapping",
        "attention.clamp_kqv", "attention.max_alibi_bias", "embedding_scale",
        "residual_scale", "logit_scale", "rope.scaling.yarn_log_multiplier",
        "rope.scaling.yarn_ext_factor", "rope.scaling.yarn_attn_factor",
        "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow"}) {
    const std::string key = std::string("llama.") + suffix;
    ExpectRefusedKey(TestModel().SetF32(key, 3.5f), key);
  }
}

TEST(RefusedKeys, FactorsThatDoNothing) {
  ExpectAccepted(TestModel()
                     .SetF32("llama.attn_logit_softcapping", 0.0f)
                     .SetF32("llama.attention.clamp_kqv", 0.0f)
                     .SetF32("llama.embedding_scale", 1.0f)
                     .SetF32("llama.residual_scale", 0.0f)
                     .SetF32("llama.rope.scaling.yarn_beta_fast", 32.0f)
                     .SetF32("llama.rope.scaling.yarn_beta_slow", 1.0f));
}

TEST(RefusedKeys, SlidingWindowShorterThanTheContextWarns) {
  const std::string key = "llama.attention.sliding_window";
  const TestLog log;
  ExpectAccepted(TestModel().SetU32(key, 0));
  ExpectAccepted(TestModel().SetU32(key, 128));
  EXPECT_TRUE(log.lines().empty());
  ExpectAccepted(TestModel().SetU32(key, 127));
  ASSERT_EQ(log.lines().size(), 1u);
  EXPECT_THAT(log.lines()[0], testing::HasSubstr("sliding window of 127"));
}

TEST(RefusedKeys, AttentionScale) {
  const std::string key = "llama.attention.scale";
  ExpectAccepted(TestModel().SetF32(key, 0.0f));
  ExpectAccepted(TestModel().SetF32(key, 1.0f / std::sqrt(8.0f)));
  ExpectRefusedKey(TestModel().SetF32(key, 0.125f), key);
}

TEST(RefusedKeys, BlockForms) {
  ExpectAccepted(TestModel().SetBool("llama.attention.causal", true));
  ExpectRefusedKey(TestModel().SetBool("llama.attention.causal", false),
                   "llama.attention.causal");
  ExpectAccepted(TestModel().SetBool("llama.use_parallel_residual", false));
  ExpectRefusedKey(TestModel().SetBool("llama.use_parallel_residual", true),
                   "llama.use_parallel_residual");
  ExpectAccepted(
      TestModel("falcon").SetBool("falcon.use_parallel_residual", true));
  ExpectRefusedKey(
      TestModel("falcon").SetBool("falcon.use_parallel_residual", false),
      "falcon.use_parallel_residual");
}

TEST(RefusedKeys, AnotherTypeIsCorrupt) {
  const ParsedCopy parsed(
      TestModel().SetText("llama.expert_count", "none").Bytes());
  const auto config = ReadConfig(**parsed.file);
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code, ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace thermocline::model

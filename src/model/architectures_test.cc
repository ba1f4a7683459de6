#include "model/architectures.h"

#include <gtest/gtest.h>

namespace thermocline::model {
namespace {

TEST(Architectures, AreFoundByName) {
  for (const Architecture& architecture : KnownArchitectures()) {
    EXPECT_EQ(FindArchitecture(architecture.name), &architecture);
  }
  EXPECT_EQ(FindArchitecture("rwkv"), nullptr);
  EXPECT_EQ(FindArchitecture(""), nullptr);
}

TEST(Architectures, AreListedForMessages) {
  EXPECT_EQ(ListArchitectures(),
            "llama, qwen2, falcon, opt, bamboo, prosparse-llama, sparse-qwen2, "
            "relu-falcon, qwen3, qwen3moe, nemotron, arcee");
}

// A FATReLU needs its threshold, a double ReLU its gate.
TEST(Architectures, AgreeWithThemselves) {
  for (const Architecture& a : KnownArchitectures()) {
    EXPECT_EQ(a.activation == Activation::kFatRelu, a.threshold > 0) << a.name;
    EXPECT_TRUE(!InfoOf(a.activation).needs_gate || a.gated) << a.name;
    EXPECT_EQ(a.learned_positions, a.rope == RopeKind::kNone) << a.name;
  }
}

}  // namespace
}  // namespace thermocline::model

#include "convert/synth_shape.h"

#include <gtest/gtest.h>

namespace thermocline::convert {
namespace {

TEST(SynthShapeTest, EveryShapeIsOneThatRuns) {
  for (const SynthShape& shape : SynthShapes()) {
    EXPECT_EQ(FindSynthShape(shape.name), &shape);
    const model::Architecture* arch =
        model::FindArchitecture(shape.architecture);
    ASSERT_NE(arch, nullptr) << shape.name;
    EXPECT_EQ(shape.width % shape.num_heads, 0u);
    EXPECT_EQ(shape.num_heads % shape.num_kv_heads, 0u);
    EXPECT_EQ(shape.width % 256, 0u);
    EXPECT_EQ(shape.ffn_width % 256, 0u);
    EXPECT_TRUE(shape.num_experts == 0 ||
                arch->mixture != model::Mixture::kNever);
    EXPECT_EQ(shape.parts_per_neuron(), arch->gated ? 3u : 2u);
    EXPECT_NE(ListSynthShapes().find(shape.name), std::string::npos);
  }
  EXPECT_EQ(FindSynthShape("gpt-5"), nullptr);
}

TEST(SynthShapeTest, SizesAreThoseOfTheNames) {
  const SynthShape* llama = FindSynthShape("llama-7b");
  EXPECT_EQ(llama->head_width(), 128u);
  EXPECT_EQ(llama->num_neurons(), 11008u);
  const SynthShape* mixtral = FindSynthShape("mixtral");
  EXPECT_EQ(mixtral->num_neurons(), 8u * 14336);
  EXPECT_EQ(mixtral->kv_width(), 1024u);
}

}  // namespace
}  // namespace thermocline::convert

#include "synth/shape.h"

#include <gtest/gtest.h>

namespace thermocline::synth {
namespace {

TEST(SynthShapeTest, EveryShapeIsOneThatRuns) {
  for (const SynthShape& shape : SynthShapes()) {
    EXPECT_EQ(FindSynthShape(shape.name), &shape);
    const model::Architecture* arch =
        model::FindArchitecture(shape.architecture);
    ASSERT_NE(arch, nullptr) << shape.name;
    EXPECT_TRUE(shape.head_size > 0 || shape.width % shape.num_heads == 0);
    EXPECT_EQ(shape.head_width() % 64, 0u);
    EXPECT_EQ(shape.num_heads % shape.num_kv_heads, 0u);
    EXPECT_EQ(shape.width % 32, 0u);
    EXPECT_EQ(shape.ffn_width % 32, 0u);
    EXPECT_LE(shape.experts_used, shape.num_experts);
    EXPECT_TRUE(shape.num_experts == 0 ||
                arch->mixture != model::Mixture::kNever);
    EXPECT_EQ(shape.parts_per_neuron(), arch->gated ? 3u : 2u);
    EXPECT_NE(ListSynthShapes().find(shape.name), std::string::npos);
  }
  EXPECT_EQ(FindSynthShape("gpt-5"), nullptr);
  EXPECT_NE(ListSynthNotes().find("gpt-oss-20b: its experts in a llama's body"),
            std::string::npos);
}

TEST(SynthShapeTest, SizesAreThoseOfTheNames) {
  const SynthShape* llama = FindSynthShape("llama-7b");
  EXPECT_EQ(llama->head_width(), 128u);
  EXPECT_EQ(llama->num_neurons(), 11008u);
  const SynthShape* mixtral = FindSynthShape("mixtral");
  EXPECT_EQ(mixtral->num_neurons(), 8u * 14336);
  EXPECT_EQ(mixtral->kv_width(), 1024u);
  // Heads that are wider together than the model.
  const SynthShape* qwen3 = FindSynthShape("qwen3-4b");
  EXPECT_EQ(qwen3->attention_width(), 4096u);
  EXPECT_EQ(qwen3->kv_width(), 1024u);
  EXPECT_EQ(FindSynthShape("qwen3-30b-a3b")->num_neurons(), 128u * 768);
}

// Weights of the matrices, in billions, beside what the names' owners say of
// the whole: embeddings and heads are of those shapes too.
TEST(SynthShapeTest, ParametersAreThoseOfTheNames) {
  struct Known {
    const char* name;
    double billions;  // with the head once more where it is tied
    double active;    // of a token, likewise
  };
  for (const Known& known : {Known{"llama-13b", 13.0, 13.0},
                             {"llama3.2-1b", 1.24 + 0.26, 1.5},
                             {"qwen3-4b", 4.02 + 0.39, 4.41},
                             {"qwen3-30b-a3b", 30.5, 3.35},
                             {"nemotron-4b", 4.19, 4.19},
                             {"smallthinker-4b", 4.27, 1.10},
                             {"gpt-oss-20b", 20.9, 3.61 + 0.58}}) {
    const SynthShape* shape = FindSynthShape(known.name);
    ASSERT_NE(shape, nullptr) << known.name;
    const uint64_t attention =
        2 * shape->width * (shape->attention_width() + shape->kv_width());
    const auto sum_with = [&](uint64_t num_neurons) {
      return 1e-9 * static_cast<double>(
                        2 * shape->vocab_size * shape->width +
                        shape->num_layers *
                            (attention + num_neurons * shape->width *
                                             shape->parts_per_neuron()));
    };
    EXPECT_NEAR(sum_with(shape->num_neurons()) / known.billions, 1.0, 0.02)
        << known.name;
    const uint64_t used = shape->num_experts > 0
                              ? shape->experts_used * shape->ffn_width
                              : shape->ffn_width;
    EXPECT_NEAR(sum_with(used) / known.active, 1.0, 0.03) << known.name;
  }
}

}  // namespace
}  // namespace thermocline::synth

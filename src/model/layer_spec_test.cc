#include "model/layer_spec.h"

#include <gtest/gtest.h>

namespace thermocline::model {
namespace {

TEST(LayerSpec, NeuronsOfAMixtureAreThoseOfAllExperts) {
  EXPECT_EQ(NumNeurons({.width = 7}), 7);
  EXPECT_EQ(NumNeurons({.width = 7, .num_experts = 3, .num_experts_used = 2}),
            21);
}

TEST(LayerSpec, ScalingsHaveTheNamesOfTheFileKey) {
  EXPECT_EQ(NameOf(RopeScaling::kNone), "none");
  EXPECT_EQ(NameOf(RopeScaling::kLinear), "linear");
  EXPECT_EQ(NameOf(RopeScaling::kYarn), "yarn");
}

}  // namespace
}  // namespace thermocline::model

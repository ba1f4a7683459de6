#include "tensor/op_kinds.h"

#include <gtest/gtest.h>

namespace thermocline {
namespace {

TEST(OpKindsTest, ActivationsHaveTheNamesOfTheFileKey) {
  EXPECT_EQ(NameOf(Activation::kSilu), "silu");
  EXPECT_EQ(NameOf(Activation::kGelu), "gelu");
  EXPECT_EQ(NameOf(Activation::kRelu), "relu");
  EXPECT_EQ(NameOf(Activation::kFatRelu), "fatrelu");
  EXPECT_EQ(NameOf(Activation::kDRelu), "drelu");
}

TEST(OpKindsTest, NamesParseBack) {
  for (int i = 0; i < 5; ++i) {
    const auto activation = static_cast<Activation>(i);
    EXPECT_EQ(ParseActivation(NameOf(activation)), activation);
  }
  EXPECT_EQ(ParseActivation("swish"), std::nullopt);
  EXPECT_EQ(ParseActivation("ReLU"), std::nullopt);
  EXPECT_EQ(ParseActivation(""), std::nullopt);
}

TEST(OpKindsTest, RopeKindsHaveNames) {
  EXPECT_EQ(NameOf(RopeKind::kNone), "none");
  EXPECT_EQ(NameOf(RopeKind::kNorm), "norm");
  EXPECT_EQ(NameOf(RopeKind::kNeox), "neox");
}

}  // namespace
}  // namespace thermocline

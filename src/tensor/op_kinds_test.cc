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
  EXPECT_EQ(NameOf(Activation::kRelu2), "relu2");
}

TEST(OpKindsTest, TheTableIsInTheOrderOfTheEnumeration) {
  size_t i = 0;
  for (const ActivationInfo& info : Activations()) {
    EXPECT_EQ(static_cast<size_t>(info.activation), i++) << info.name;
    EXPECT_EQ(&InfoOf(info.activation), &info);
  }
  EXPECT_EQ(i, 6);
}

TEST(OpKindsTest, WhichActivationsHaveZeros) {
  EXPECT_EQ(ListActivations(false), "silu and gelu");
  EXPECT_EQ(ListActivations(true), "relu, fatrelu, drelu and relu2");
  EXPECT_EQ(ListActivations(), "silu, gelu, relu, fatrelu, drelu and relu2");
  EXPECT_TRUE(HasZeros(Activation::kRelu2));
  EXPECT_FALSE(HasZeros(Activation::kGelu));
}

TEST(OpKindsTest, NamesParseBack) {
  for (const ActivationInfo& info : Activations()) {
    EXPECT_EQ(ParseActivation(info.name), info.activation);
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

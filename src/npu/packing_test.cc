#include "npu/packing.h"

#include <gtest/gtest.h>

namespace thermocline::npu {
namespace {

constexpr Element kInt8 = Element::kI8;
constexpr Element kInt4 = Element::kI4;

TEST(PackingTest, FormsAndTypesOfFilesGiveElementsAndGroups) {
  struct Case {
    WeightForm form;
    DType dtype;
    bool is_transposed;
    size_t columns;
    Packing packing;
  };
  const Case cases[] = {
      {WeightForm::kExact, DType::kQ8_0, false, 64, {kInt8, 32}},
      {WeightForm::kExact, DType::kQ6_K, false, 512, {kInt8, 16}},
      {WeightForm::kExact, DType::kQ4_0, false, 64, {kInt4, 32}},
      {WeightForm::kExact, DType::kF16, false, 64, {}},
      {WeightForm::kExact, DType::kQ4_K, false, 256, {}},
      {WeightForm::kExact, DType::kQ8_0, true, 64, {}},
      {WeightForm::kF16, DType::kQ8_0, false, 64, {}},
      {WeightForm::kI8Channel, DType::kF32, false, 50, {kInt8, 50}},
      {WeightForm::kI4Channel, DType::kQ8_0, true, 64, {kInt4, 64}},
      {WeightForm::kI4Group128, DType::kQ8_0, false, 384, {kInt4, 128}},
      {WeightForm::kI4Group128, DType::kQ8_0, false, 96, {kInt4, 96}},
      {WeightForm::kI8Asymmetric,
       DType::kF16,
       false,
       64,
       {Element::kU8, 64, true}},
      {WeightForm::kI4Asymmetric,
       DType::kF16,
       false,
       64,
       {Element::kU4, 64, true}},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(PackingOf(c.form, c.dtype, c.is_transposed, c.columns), c.packing)
        << NameOf(c.form) << " of " << NameOf(c.dtype) << ", " << c.columns;
  }
}

TEST(PackingTest, UnpackedMatricesAreFloatsOfTheirShape) {
  struct Case {
    Packing packing;
    int64_t weight_group;
  };
  const Case cases[] = {{{}, 0},
                        {{kInt4, 32}, 32},
                        {{kInt8, 64}, -1},
                        {{Element::kU4, 64, true}, -1}};
  for (const Case& c : cases) {
    const PackedTypes types = TypesOf(c.packing, 10, 64);
    Graph graph;
    PackedValues values;
    values.weight = graph.Parameter("w", types.weight);
    if (types.scale) values.scale = graph.Parameter("s", *types.scale);
    if (types.zero) values.zero = graph.Parameter("z", *types.zero);
    EXPECT_EQ(graph.type(AddUnpacked(graph, values)),
              (Type{Element::kF32, {10, 64}}));
    NoteGroup(types.weight, graph);
    EXPECT_EQ(graph.weight_group, c.weight_group);
  }
}

TEST(PackingTest, AGroupIsToldWhereAnyMatrixHasOne) {
  for (const bool channel_first : {true, false}) {
    Graph graph;
    const Type channel = TypesOf({kInt4, 64}, 2, 64).weight;
    const Type grouped = TypesOf({kInt4, 32}, 2, 64).weight;
    NoteGroup(channel_first ? channel : grouped, graph);
    NoteGroup(channel_first ? grouped : channel, graph);
    EXPECT_EQ(graph.weight_group, 32);
  }
}

}  // namespace
}  // namespace thermocline::npu

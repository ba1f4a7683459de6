#include "pack/tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "pack/test_parts.h"

namespace thermocline::pack {
namespace {

using ::testing::ElementsAre;

model::Config TwoLayerConfig() {
  model::Config config;
  config.num_layers = 2;
  config.width = 32;
  const model::LayerSpec layer = {.ffn = {.width = 12}};
  config.layers = {layer, layer};
  return config;
}

const PartTensor& Find(const std::vector<PartTensor>& tensors,
                       const std::string& name) {
  for (const PartTensor& tensor : tensors) {
    if (tensor.name == name) return tensor;
  }
  ADD_FAILURE() << name;
  return tensors.front();
}

TEST(TensorsOfTest, NamesTypesAndShapes) {
  const model::Config config = TwoLayerConfig();
  const PreparedParts parts = TestParts(config);
  const std::vector<PartTensor> tensors = TensorsOf(parts, config);
  std::vector<std::string> names;
  for (const PartTensor& tensor : tensors) {
    names.push_back(tensor.name);
    EXPECT_EQ(tensor.data().size(),
              BytesOf(tensor.dtype, tensor.shape.num_elems()))
        << tensor.name;
  }
  EXPECT_THAT(
      names,
      ElementsAre("blk.0.tc_selftest.inputs", "blk.0.tc_selftest.fired",
                  "blk.0.tc_profile.counts", "blk.0.tc_order",
                  "blk.1.tc_pred_up.weight", "blk.1.tc_pred_up.bias",
                  "blk.1.tc_pred_down.weight", "blk.1.tc_pred_down.bias",
                  "blk.1.tc_free_signs.weight", "blk.1.tc_free_up.weight",
                  "blk.1.tc_free_down.weight", "blk.1.tc_free.bias",
                  "blk.1.tc_selftest.inputs", "blk.1.tc_selftest.fired",
                  "blk.1.tc_selftest.candidates", "blk.1.tc_selftest.free",
                  "blk.1.tc_profile.counts", "blk.1.tc_order"));
  const PartTensor& signs = Find(tensors, "blk.1.tc_free_signs.weight");
  EXPECT_EQ(signs.dtype, DType::kI8);
  EXPECT_EQ(ToString(signs.shape), "[8, 12]");
}

TEST(TensorsOfTest, SetsAreBitsFromTheLowestOn) {
  const model::Config config = TwoLayerConfig();
  PreparedParts parts = TestParts(config);
  parts.self_test[0].fired = {{0, 9, 11}, {8}};
  const std::vector<PartTensor> tensors = TensorsOf(parts, config);
  const PartTensor& fired = Find(tensors, "blk.0.tc_selftest.fired");
  EXPECT_EQ(ToString(fired.shape), "[2, 2]");
  EXPECT_THAT(fired.data(), ElementsAre(std::byte{0x01}, std::byte{0x0a},
                                        std::byte{0x00}, std::byte{0x01}));
}

}  // namespace
}  // namespace thermocline::pack

#include "npu/layer_tensors.h"

#include <gtest/gtest.h>

#include <limits>

#include "npu/test_npu_model.h"

namespace thermocline::npu {
namespace {

std::vector<std::string> NamesOf(const NpuModelSpec& spec) {
  const auto model = MakeNpuModel(spec);
  std::vector<std::string> names;
  for (const LayerTensor& tensor :
       TensorsOf(*model, model->weights().layers[1], 1)) {
    names.push_back(tensor.is_matrix ? "w_" + tensor.name : tensor.name);
  }
  return names;
}

TEST(LayerTensorsTest, ALayerHasWhatItsArchitectureHas) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(NamesOf({}), (Names{"n_attn", "w_q", "w_k", "w_v", "w_o", "n_ffn",
                                "w_gate", "w_up", "w_down"}));
  EXPECT_EQ(NamesOf({.architecture = "qwen3"}),
            (Names{"n_attn", "w_q", "w_k", "w_v", "n_q", "n_k", "w_o", "n_ffn",
                   "w_gate", "w_up", "w_down"}));
  EXPECT_EQ(NamesOf({.architecture = "opt"}),
            (Names{"n_attn", "nb_attn", "w_q", "b_q", "w_k", "b_k", "w_v",
                   "b_v", "w_o", "b_o", "n_ffn", "nb_ffn", "w_up", "b_up",
                   "w_down", "b_down"}));
  EXPECT_EQ(NamesOf({.architecture = "falcon", .two_norms = true}),
            (Names{"n_attn", "nb_attn", "w_q", "w_k", "w_v", "w_o", "n_ffn",
                   "nb_ffn", "w_up", "w_down"}));
}

TEST(LayerTensorsTest, PairsThatRotateAreTakenApart) {
  using Order = std::vector<uint32_t>;
  const auto order_of = [](const NpuModelSpec& spec) {
    return HeadOrder(MakeNpuModel(spec)->config(), 0);
  };
  EXPECT_EQ(order_of({.key_width = 8}), (Order{0, 2, 4, 6, 1, 3, 5, 7}));
  EXPECT_EQ(order_of({.key_width = 8, .rope_width = 4}),
            (Order{0, 2, 1, 3, 4, 5, 6, 7}));
  EXPECT_EQ(order_of({.architecture = "qwen2"}), Order());
  EXPECT_EQ(order_of({.architecture = "opt"}), Order());
}

TEST(LayerTensorsTest, RowsAndBiasesOfAllHeadsAreReordered) {
  const auto model = MakeNpuModel({.key_width = 4, .biases = true});
  const auto tensors = TensorsOf(*model, model->weights().layers[0], 0);
  EXPECT_EQ(tensors[1].name, "q");
  EXPECT_EQ(tensors[2].name, "b_q");
  EXPECT_EQ(tensors[1].source.order, tensors[2].source.order);
  EXPECT_EQ(tensors[3].name, "k");
  EXPECT_EQ(tensors[3].source.order,
            (std::vector<uint32_t>{0, 2, 1, 3, 4, 6, 5, 7}));
  EXPECT_EQ(tensors[5].name, "v");
  EXPECT_TRUE(tensors[5].source.order.empty());
}

TEST(LayerTensorsTest, VectorsAreFinite) {
  std::vector<float> values = {1.0f, 2.0f, 3.0f};
  const MatrixSource source = {
      .view = {.shape = {.ne = {3, 1, 1, 1}, .rank = 1},
               .data = reinterpret_cast<const std::byte*>(values.data())},
      .order = {2, 0, 1}};
  std::vector<float> copy(3);
  auto* to = reinterpret_cast<std::byte*>(copy.data());
  EXPECT_TRUE(CopyVector(source, to));
  EXPECT_EQ(copy, (std::vector<float>{3.0f, 1.0f, 2.0f}));
  values[1] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(CopyVector(source, to).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace thermocline::npu

#include "npu/layer_inputs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "model/test_model.h"
#include "npu/test_npu_model.h"

namespace thermocline::npu {
namespace {

constexpr WeightForm kAllForms[] = {
    WeightForm::kExact,        WeightForm::kF16,
    WeightForm::kI8Channel,    WeightForm::kI4Channel,
    WeightForm::kI4Group128,   WeightForm::kI8Asymmetric,
    WeightForm::kI4Asymmetric,
};

// Memory of a layer's inputs, filled with something.
struct InputMemory {
  explicit InputMemory(const std::vector<LayerInput>& inputs) {
    for (const LayerInput& input : inputs) {
      bytes.emplace_back(NumBytes(input.type), std::byte{0x5a});
    }
    for (auto& tensor : bytes) data.push_back(tensor.data());
  }
  std::vector<std::vector<std::byte>> bytes;
  std::vector<std::byte*> data;
};

TEST(LayerInputsTest, FormsSayWhichTensorsThereAre) {
  const auto model = MakeNpuModel({.dtype = DType::kQ8_0});
  const auto find = [&](WeightForm form, const std::string& name) {
    const auto inputs = LayerInputs(*model, 0, form);
    const auto found = std::ranges::find(*inputs, name, &LayerInput::name);
    return found == inputs->end() ? "" : ToString(found->type);
  };
  EXPECT_EQ(find(WeightForm::kExact, "w_up"), "i8[96,2,32]");
  EXPECT_EQ(find(WeightForm::kExact, "s_up"), "f16[96,2,1]");
  EXPECT_EQ(find(WeightForm::kExact, "n_ffn"), "f32[64]");
  EXPECT_EQ(find(WeightForm::kF16, "w_down"), "f16[64,96]");
  EXPECT_EQ(find(WeightForm::kF16, "s_down"), "");
  EXPECT_EQ(find(WeightForm::kI4Asymmetric, "w_q"), "u4[96,64]");
  EXPECT_EQ(find(WeightForm::kI4Asymmetric, "s_q"), "f16[96,1]");
  EXPECT_EQ(find(WeightForm::kI4Asymmetric, "z_q"), "u4[96,1]");
}

// With its scales and zero points.
TEST(LayerInputsTest, BytesOfAMatrix) {
  const TensorView matrix = {.dtype = DType::kQ4_0,
                             .shape = {.ne = {64, 33, 1, 1}, .rank = 2}};
  const auto bytes = [&](WeightForm form) {
    return MatrixBytesOf(matrix, form).num_bytes;
  };
  EXPECT_EQ(bytes(WeightForm::kF16), 33 * 128u);
  EXPECT_EQ(bytes(WeightForm::kI8Channel), 33 * 66u);
  EXPECT_EQ(bytes(WeightForm::kI4Channel), 33 * 34u);
  EXPECT_EQ(bytes(WeightForm::kI4Asymmetric), 33 * 34u + 17);
  EXPECT_EQ(bytes(WeightForm::kExact), 33 * 36u);
  EXPECT_EQ(MatrixBytesOf(matrix, WeightForm::kI4Asymmetric).element,
            Element::kU4);
}

TEST(LayerInputsTest, PartsOfALayerMakeTheSameWhole) {
  for (const WeightForm form : kAllForms) {
    const auto model =
        MakeNpuModel({.architecture = "opt", .dtype = DType::kQ8_0});
    const model::LayerWeights& weights = model->weights().layers[1];
    const auto inputs = LayerInputs(*model, 1, form);
    InputMemory whole(*inputs);
    InputMemory parts(*inputs);
    const size_t count = inputs->size();
    UnpackError error;
    ASSERT_TRUE(
        UnpackLayer(*model, weights, 1, form, 0, count, whole.data, &error));
    UnpackError error_of_parts;
    for (size_t i = count; i-- > 0;) {
      ASSERT_TRUE(UnpackLayer(*model, weights, 1, form, i, i + 1, parts.data,
                              &error_of_parts));
    }
    EXPECT_EQ(whole.bytes, parts.bytes) << NameOf(form);
    EXPECT_EQ(error.worst, error_of_parts.worst);
    EXPECT_EQ(error.worst_name.empty(), error.worst == 0.0);
    // No other tensor is touched.
    InputMemory one(*inputs);
    const std::vector<std::byte> before = one.bytes[2];
    ASSERT_TRUE(UnpackLayer(*model, weights, 1, form, 1, 2, one.data, nullptr));
    EXPECT_EQ(one.bytes[1], whole.bytes[1]);
    EXPECT_EQ(one.bytes[2], before);
  }
}

TEST(LayerInputsTest, DownThatIsTransposedGivesTheSameMatrix) {
  std::vector<float> kept;
  const auto keep = [&](const std::string& name, std::span<float> values) {
    if (name != "blk.1.ffn_down.weight") return;
    kept.assign(values.begin(), values.end());
  };
  const auto transpose = [&](const std::string& name, std::span<float> values) {
    if (name != "blk.1.ffn_down_t.weight") return;
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = kept[i % 64 * 96 + i / 64];
    }
  };
  const auto straight = MakeNpuModel({.edit = keep});
  const auto transposed = MakeNpuModel({.down_t = true, .edit = transpose});
  std::vector<std::vector<std::byte>> last;
  for (const auto& model : {straight, transposed}) {
    const auto inputs = LayerInputs(*model, 1, WeightForm::kExact);
    InputMemory memory(*inputs);
    ASSERT_TRUE(UnpackLayer(*model, model->weights().layers[1], 1,
                            WeightForm::kExact, 0, inputs->size(), memory.data,
                            nullptr));
    last.push_back(memory.bytes.back());
  }
  EXPECT_EQ(last[0], last[1]);
}

TEST(LayerInputsTest, RecordsAreUnpackedInPlace) {
  const NpuModelSpec spec = {.dtype = DType::kQ8_0, .down_dtype = DType::kF16};
  const auto plain = MakeNpuModel(spec);
  const auto bundled = MakeNpuModel(spec, {.bundle_at_load = true});
  ASSERT_TRUE(bundled->weights().layers[0].ffn.bundled);
  ASSERT_FALSE(bundled->weights().layers[0].ffn.down);
  for (const WeightForm form : kAllForms) {
    std::vector<std::vector<std::vector<std::byte>>> all;
    for (const auto& model : {plain, bundled}) {
      const auto inputs = LayerInputs(*model, 0, form);
      InputMemory memory(*inputs);
      ASSERT_TRUE(UnpackLayer(*model, model->weights().layers[0], 0, form, 0,
                              inputs->size(), memory.data, nullptr));
      all.push_back(memory.bytes);
    }
    EXPECT_EQ(all[0], all[1]) << NameOf(form);
  }
}

TEST(LayerInputsTest, ErrorsNameTheMatrix) {
  const auto spoil = [](const std::string& name, std::span<float> values) {
    if (name == "blk.1.ffn_up.weight") {
      values[64] = std::numeric_limits<float>::infinity();
    }
  };
  const auto model = MakeNpuModel({.dtype = DType::kF32, .edit = spoil});
  const auto inputs = LayerInputs(*model, 1, WeightForm::kExact);
  InputMemory memory(*inputs);
  UnpackError error;
  const Status status =
      UnpackLayer(*model, model->weights().layers[1], 1, WeightForm::kExact, 0,
                  inputs->size(), memory.data, &error);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(status.error().message,
            "test.gguf: layer 1, up: row 1: an element is not finite, or "
            "larger than F16 can hold (65504)");
  // Those before it were measured: F32 rounded to F16.
  EXPECT_GT(error.worst, 1e-5);
  EXPECT_LT(error.worst, 4e-4);
  EXPECT_TRUE(error.worst_name.starts_with("layer 1, "));
}

TEST(LayerInputsTest, WhatWasLeftInItsFileIsNotUnpacked) {
  const auto model = MakeNpuModel({});
  model::LayerWeights weights = model->weights().layers[0];
  weights.ffn.up.data = nullptr;
  const auto inputs = LayerInputs(*model, 0, WeightForm::kExact);
  InputMemory memory(*inputs);
  const Status status = UnpackLayer(*model, weights, 0, WeightForm::kExact, 0,
                                    inputs->size(), memory.data, nullptr);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().message,
            "test.gguf: layer 0, up: it is not in memory, but was left in its "
            "file");
}

TEST(LayerInputsTest, MixturesHaveNone) {
  const auto model = OpenNpuModel(model::TestExpertModel());
  EXPECT_EQ(LayerInputs(*model, 0, WeightForm::kExact).error().code,
            ErrorCode::kUnsupported);
}

TEST(LayerInputsTest, AMatrixBecomesConstants) {
  const auto model = MakeNpuModel({.dtype = DType::kQ8_0});
  Graph graph;
  UnpackError error;
  const auto exact =
      AddMatrix(graph, model->weights().head, WeightForm::kExact, &error);
  ASSERT_TRUE(exact.has_value());
  EXPECT_EQ(ToString(graph.type(*exact)), "f32[40,64]");
  EXPECT_EQ(graph.weight_group, 32);
  EXPECT_EQ(error.worst, 0.0);
  ASSERT_TRUE(
      AddMatrix(graph, model->weights().head, WeightForm::kI4Channel, &error));
  EXPECT_EQ(error.worst_name, "[40, 64]");
  EXPECT_GT(error.worst, 0.01);
}

}  // namespace
}  // namespace thermocline::npu

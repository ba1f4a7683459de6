#include "engine/testing/tiny_model.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <limits>

#include "base/random.h"
#include "gguf/writer.h"
#include "tensor/codec.h"

namespace thermocline::engine::testing {
namespace {

using gguf::ValueType;

struct Tensor {
  std::string name;
  DType dtype;
  std::vector<uint64_t> ne;
  float scale;  // values are uniform in offset +- scale
  float offset;
};

Shape ShapeOf(const std::vector<uint64_t>& ne) {
  Shape shape;
  shape.rank = static_cast<int>(ne.size());
  for (size_t i = 0; i < ne.size(); ++i) shape.ne[i] = ne[i];
  return shape;
}

void AddLayer(const TinySpec& spec, int64_t layer_idx,
              std::vector<Tensor>& tensors) {
  const auto width = static_cast<uint64_t>(spec.width);
  const auto ffn = static_cast<uint64_t>(spec.ffn_width);
  const auto q = static_cast<uint64_t>(spec.num_heads * spec.head_width);
  const auto kv = static_cast<uint64_t>(spec.num_kv_heads * spec.head_width);
  const DType dtype = spec.dtype;
  const DType value = spec.value_dtype.value_or(dtype);
  const auto matrix = [&](const char* name, DType type, uint64_t n,
                          uint64_t rows) {
    // Uniform with this bound has variance 1/n: sizes stay as they are.
    const float bound = std::sqrt(3.0f / static_cast<float>(n));
    tensors.push_back({fmt::format("blk.{}.{}.weight", layer_idx, name),
                       type,
                       {n, rows},
                       bound,
                       0.0f});
  };
  const auto vector = [&](const char* name, uint64_t n, float offset) {
    tensors.push_back({fmt::format("blk.{}.{}", layer_idx, name),
                       DType::kF32,
                       {n},
                       0.3f,
                       offset});
  };
  vector("attn_norm.weight", width, 1.0f);
  matrix("attn_q", dtype, width, q);
  matrix("attn_k", dtype, width, kv);
  matrix("attn_v", value, width, kv);
  matrix("attn_output", dtype, q, width);
  if (spec.biases) {
    vector("attn_q.bias", q, 0.1f);
    vector("attn_k.bias", kv, -0.1f);
    vector("attn_v.bias", kv, 0.2f);
  }
  vector("ffn_norm.weight", width, 1.0f);
  matrix("ffn_gate", dtype, width, ffn);
  matrix("ffn_up", dtype, width, ffn);
  matrix("ffn_down", value, ffn, width);
}

std::vector<Tensor> TensorsOf(const TinySpec& spec) {
  const auto width = static_cast<uint64_t>(spec.width);
  const auto vocab = static_cast<uint64_t>(spec.vocab_size);
  std::vector<Tensor> tensors;
  tensors.push_back({"token_embd.weight",
                     spec.embedding_dtype.value_or(spec.dtype),
                     {width, vocab},
                     spec.embedding_scale,
                     0.0f});
  for (int64_t i = 0; i < spec.num_layers; ++i) AddLayer(spec, i, tensors);
  tensors.push_back({"output_norm.weight", DType::kF32, {width}, 0.3f, 1.0f});
  if (!spec.tied) {
    tensors.push_back(
        {"output.weight", spec.dtype, {width, vocab}, 0.2f, 0.0f});
  }
  if (spec.freq_factors) {
    tensors.push_back({"rope_freqs.weight",
                       DType::kF32,
                       {static_cast<uint64_t>(spec.head_width / 2)},
                       1.0f,
                       2.0f});
  }
  return tensors;
}

Status AddMetadata(const TinySpec& spec, gguf::Writer& writer) {
  const std::string& arch = spec.architecture;
  TC_RETURN_IF_ERROR(writer.AddString("general.architecture", arch));
  const auto add_int = [&](const char* key, int64_t value) {
    return writer.AddInt(arch + key, ValueType::kU32, value);
  };
  TC_RETURN_IF_ERROR(add_int(".context_length", spec.context_length));
  TC_RETURN_IF_ERROR(add_int(".embedding_length", spec.width));
  TC_RETURN_IF_ERROR(add_int(".block_count", spec.num_layers));
  TC_RETURN_IF_ERROR(add_int(".feed_forward_length", spec.ffn_width));
  TC_RETURN_IF_ERROR(add_int(".attention.head_count", spec.num_heads));
  TC_RETURN_IF_ERROR(add_int(".attention.head_count_kv", spec.num_kv_heads));
  TC_RETURN_IF_ERROR(add_int(".attention.key_length", spec.head_width));
  TC_RETURN_IF_ERROR(add_int(".attention.value_length", spec.head_width));
  TC_RETURN_IF_ERROR(add_int(".rope.dimension_count", spec.head_width));
  TC_RETURN_IF_ERROR(add_int(".vocab_size", spec.vocab_size));
  TC_RETURN_IF_ERROR(writer.AddFloat(arch + ".attention.layer_norm_rms_epsilon",
                                     spec.norm_epsilon));
  TC_RETURN_IF_ERROR(writer.AddFloat(arch + ".rope.freq_base", spec.rope_base));
  if (!spec.rope_scaling.empty()) {
    TC_RETURN_IF_ERROR(
        writer.AddString(arch + ".rope.scaling.type", spec.rope_scaling));
    TC_RETURN_IF_ERROR(
        writer.AddFloat(arch + ".rope.scaling.factor", spec.rope_factor));
    if (spec.rope_original_context > 0) {
      TC_RETURN_IF_ERROR(add_int(".rope.scaling.original_context_length",
                                 spec.rope_original_context));
    }
  }
  if (!spec.activation.empty()) {
    TC_RETURN_IF_ERROR(
        writer.AddString("thermocline.ffn.activation", spec.activation));
  }
  if (spec.threshold.has_value()) {
    TC_RETURN_IF_ERROR(
        writer.AddFloat("thermocline.ffn.threshold", *spec.threshold));
  }
  return {};
}

Status WriteTensor(const TinySpec& spec, const Tensor& tensor, Random& random,
                   gguf::Writer& writer) {
  std::vector<float> values(ShapeOf(tensor.ne).num_elems());
  for (float& value : values) {
    value = tensor.offset + random.Uniform(-tensor.scale, tensor.scale);
  }
  if (spec.edit) spec.edit(tensor.name, values);
  std::vector<std::byte> bytes(BytesOf(tensor.dtype, values.size()));
  QuantizeRow(tensor.dtype, values, bytes.data());
  return writer.WriteTensorData(bytes);
}

Status WriteModel(const TinySpec& spec, const std::string& path) {
  TC_ASSIGN_OR_RETURN(const auto writer, gguf::Writer::Create(path));
  TC_RETURN_IF_ERROR(AddMetadata(spec, *writer));
  const std::vector<Tensor> tensors = TensorsOf(spec);
  for (const Tensor& tensor : tensors) {
    TC_RETURN_IF_ERROR(
        writer->DeclareTensor(tensor.name, tensor.dtype, ShapeOf(tensor.ne)));
  }
  TC_RETURN_IF_ERROR(writer->Start());
  Random random(spec.seed);
  for (const Tensor& tensor : tensors) {
    TC_RETURN_IF_ERROR(WriteTensor(spec, tensor, random, *writer));
  }
  return writer->Finish();
}

double NmseOf(std::span<const float> a, auto b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double error = 0.0;
  double power = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double expected = b[i];
    error += (a[i] - expected) * (a[i] - expected);
    power += expected * expected;
  }
  return error / power;
}

}  // namespace

TinySpec WideSpec(DType dtype) {
  TinySpec spec;
  spec.width = 256;
  spec.ffn_width = 512;
  spec.num_heads = 8;
  spec.num_kv_heads = 2;
  spec.head_width = 32;
  spec.dtype = dtype;
  return spec;
}

std::shared_ptr<const model::Model> MakeTinyModel(const TinySpec& spec) {
  static std::atomic<int> counter = 0;
  const std::string path = fmt::format(
      "{}/tiny-{}-{}.gguf", ::testing::TempDir(), getpid(), counter++);
  const Status written = WriteModel(spec, path);
  if (!written.has_value()) {
    ADD_FAILURE() << written.error().message;
    return nullptr;
  }
  auto model = model::Model::Open(path);
  std::remove(path.c_str());  // the mapping lives on
  if (!model.has_value()) {
    ADD_FAILURE() << model.error().message;
    return nullptr;
  }
  return *model;
}

std::vector<text::TokenId> RandomTokens(size_t count, int64_t vocab_size,
                                        uint64_t seed) {
  Random random(seed);
  std::vector<text::TokenId> tokens(count);
  for (text::TokenId& token : tokens) {
    token = static_cast<text::TokenId>(
        random.Below(static_cast<uint64_t>(vocab_size)));
  }
  return tokens;
}

double Nmse(std::span<const float> a, std::span<const double> b) {
  return NmseOf(a, b);
}

double Nmse(std::span<const float> a, std::span<const float> b) {
  return NmseOf(a, b);
}

namespace {

TEST(TinyModel, IsWhatTheSpecSays) {
  TinySpec spec = WideSpec(DType::kQ4_K);
  spec.architecture = "qwen2";
  spec.biases = true;
  spec.value_dtype = DType::kQ6_K;
  spec.num_layers = 3;
  const auto model = MakeTinyModel(spec);
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->config().num_layers, 3);
  EXPECT_EQ(model->config().num_kv_heads, 2);
  const auto& layer = model->weights().layers[2];
  EXPECT_EQ(layer.attention.q.dtype, DType::kQ4_K);
  EXPECT_EQ(layer.ffn.down.dtype, DType::kQ6_K);
  EXPECT_TRUE(layer.attention.v_bias);
  EXPECT_FALSE(model->weights().tied);
}

TEST(TinyModel, NmseIsRelativeToTheExpected) {
  const std::vector<float> a = {1.0f, 2.0f};
  const std::vector<double> b = {1.0, 1.0};
  EXPECT_DOUBLE_EQ(Nmse(a, std::span<const double>(b)), 0.5);
  EXPECT_TRUE(
      std::isinf(Nmse(std::span(a).first(1), std::span<const double>(b))));
}

}  // namespace
}  // namespace thermocline::engine::testing

#include "engine/testing/tiny_model.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include "base/random.h"
#include "gguf/writer.h"
#include "model/architectures.h"
#include "model/prepared_names.h"
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

// What the architecture's files have beyond llama's, or lack.
bool IsFalcon(const TinySpec& spec) {
  return spec.architecture.ends_with("falcon");
}
bool IsOpt(const TinySpec& spec) { return spec.architecture == "opt"; }
const model::Architecture& FormOf(const TinySpec& spec) {
  return *model::FindArchitecture(spec.architecture);
}
bool HasLayerNorm(const TinySpec& spec) {
  return FormOf(spec).norm == NormKind::kLayer;
}

// Lists the tensors of a layer, or with no layer those of the model.
class TensorList {
 public:
  TensorList(std::string prefix, std::vector<Tensor>* tensors)
      : prefix_(std::move(prefix)), tensors_(tensors) {}

  // Uniform with this bound has variance 1/n: sizes stay as they are.
  void Matrix(const std::string& name, DType dtype, size_t n, size_t rows,
              size_t layers = 1) const {
    const float bound = std::sqrt(3.0f / static_cast<float>(n));
    std::vector<uint64_t> ne = {n, rows};
    if (layers > 1) ne.push_back(layers);
    tensors_->push_back({prefix_ + name + ".weight", dtype, ne, bound, 0.0f});
  }

  void Vector(const std::string& name, size_t n, float offset) const {
    tensors_->push_back({prefix_ + name, DType::kF32, {n}, 0.3f, offset});
  }

  void Norm(const TinySpec& spec, const std::string& name) const {
    Vector(name + ".weight", spec.width, 1.0f);
    if (HasLayerNorm(spec)) Vector(name + ".bias", spec.width, 0.05f);
  }

 private:
  std::string prefix_;
  std::vector<Tensor>* tensors_;
};

// As if all layers were as this one.
TinySpec SpecOf(const TinySpec& spec, size_t layer_idx) {
  TinySpec own = spec;
  if (spec.layers.empty()) return own;
  const TinyLayer& layer = spec.layers[layer_idx];
  own.num_heads = layer.num_heads;
  own.num_kv_heads = layer.num_kv_heads;
  own.head_width = layer.head_width;
  own.ffn_width = layer.ffn_width;
  return own;
}

void AddAttention(const TinySpec& spec, const TensorList& list) {
  const size_t q = spec.num_heads * spec.head_width;
  const size_t kv = spec.num_kv_heads * spec.head_width;
  const DType value = spec.value_dtype.value_or(spec.dtype);
  list.Norm(spec, "attn_norm");
  if (spec.two_norms) list.Norm(spec, "attn_norm_2");
  if (IsFalcon(spec)) {
    list.Matrix("attn_qkv", spec.dtype, spec.width, q + 2 * kv);
  } else {
    list.Matrix("attn_q", spec.dtype, spec.width, q);
    list.Matrix("attn_k", spec.dtype, spec.width, kv);
    list.Matrix("attn_v", value, spec.width, kv);
  }
  list.Matrix("attn_output", spec.dtype, q, spec.width);
  if (FormOf(spec).qk_norm == model::QkNorm::kPerHead) {
    list.Vector("attn_q_norm.weight", spec.head_width, 1.0f);
    list.Vector("attn_k_norm.weight", spec.head_width, 0.9f);
  }
  if (!spec.biases && !IsOpt(spec)) return;
  list.Vector("attn_q.bias", q, 0.1f);
  list.Vector("attn_k.bias", kv, -0.1f);
  list.Vector("attn_v.bias", kv, 0.2f);
  if (IsOpt(spec)) list.Vector("attn_output.bias", spec.width, -0.1f);
}

void AddExperts(const TinySpec& spec, const TensorList& list) {
  list.Matrix("ffn_gate_inp", DType::kF32, spec.width, spec.num_experts);
  const auto add = [&](const char* name, DType dtype, size_t n, size_t rows) {
    if (!spec.expert_tensors) {
      list.Matrix(fmt::format("{}_exps", name), dtype, n, rows,
                  spec.num_experts);
      return;
    }
    for (size_t e = 0; e < spec.num_experts; ++e) {
      list.Matrix(fmt::format("{}.{}", name, e), dtype, n, rows);
    }
  };
  add("ffn_gate", spec.dtype, spec.width, spec.ffn_width);
  add("ffn_up", spec.dtype, spec.width, spec.ffn_width);
  add("ffn_down", spec.value_dtype.value_or(spec.dtype), spec.ffn_width,
      spec.width);
}

void AddPredictor(const TinySpec& spec, size_t rank, const TensorList& list) {
  const bool is_powerinfer = spec.container == gguf::Container::kPowerInfer;
  const std::string stem = spec.lookahead ? "tc_pred" : "ffn_pred";
  const std::string up = is_powerinfer ? "fc1" : stem + "_up";
  const std::string down = is_powerinfer ? "fc2" : stem + "_down";
  list.Matrix(up, spec.dtype, spec.width, rank);
  list.Matrix(down, spec.dtype, rank, spec.ffn_width);
  if (is_powerinfer || !spec.predictor_biases) return;
  list.Vector(up + ".bias", rank, 0.0f);
  list.Vector(down + ".bias", spec.ffn_width, 0.0f);
}

void AddFfn(const TinySpec& spec, size_t layer_idx, const TensorList& list) {
  if (!IsFalcon(spec)) list.Norm(spec, "ffn_norm");
  if (spec.num_experts > 0) return AddExperts(spec, list);
  const DType value = spec.value_dtype.value_or(spec.dtype);
  if (FormOf(spec).gated) {
    list.Matrix("ffn_gate", spec.dtype, spec.width, spec.ffn_width);
  }
  list.Matrix("ffn_up", spec.dtype, spec.width, spec.ffn_width);
  const std::string down = spec.down_t ? "ffn_down_t" : "ffn_down";
  if (spec.down_t) {
    list.Matrix(down, value, spec.width, spec.ffn_width);
  } else {
    list.Matrix(down, value, spec.ffn_width, spec.width);
  }
  if (spec.both_downs) {
    list.Matrix("ffn_down_t", value, spec.width, spec.ffn_width);
  }
  if (IsOpt(spec)) {
    list.Vector("ffn_up.bias", spec.ffn_width, 0.05f);
    list.Vector(down + ".bias", spec.width, 0.1f);
  }
  const size_t rank =
      spec.low_ranks.empty() ? spec.predictor_rank : spec.low_ranks[layer_idx];
  if (rank > 0) AddPredictor(spec, rank, list);
}

std::vector<Tensor> TensorsOf(const TinySpec& spec) {
  const size_t width = spec.width;
  const size_t vocab = spec.vocab_size;
  std::vector<Tensor> tensors;
  const DType embedding = spec.embedding_dtype.value_or(spec.dtype);
  tensors.push_back({"token_embd.weight",
                     embedding,
                     {width, vocab},
                     spec.embedding_scale,
                     0.0f});
  if (IsOpt(spec)) {
    const int64_t rows = spec.context_length + spec.unused_positions;
    tensors.push_back({"position_embd.weight",
                       embedding,
                       {width, static_cast<uint64_t>(rows)},
                       0.5f * spec.embedding_scale,
                       0.0f});
  }
  for (size_t i = 0; i < spec.num_layers; ++i) {
    const TensorList list(fmt::format("blk.{}.", i), &tensors);
    const TinySpec own = SpecOf(spec, i);
    AddAttention(own, list);
    AddFfn(own, i, list);
  }
  TensorList("", &tensors).Norm(spec, "output_norm");
  if (!spec.tied) {
    tensors.push_back(
        {"output.weight", spec.dtype, {width, vocab}, 0.2f, 0.0f});
  }
  if (spec.freq_factors) {
    tensors.push_back(
        {"rope_freqs.weight", DType::kF32, {spec.head_width / 2}, 1.0f, 2.0f});
  }
  return tensors;
}

// Numbers of heads and widths: of all layers, or of each.
Status AddShapes(const TinySpec& spec, gguf::Writer& writer) {
  const auto add = [&](const char* key, size_t TinyLayer::* of_layer,
                       size_t of_all) {
    const std::string name = spec.architecture + key;
    if (spec.layers.empty())
      return writer.AddInt(name, ValueType::kU32, static_cast<int64_t>(of_all));
    std::vector<int64_t> values;
    for (const TinyLayer& layer : spec.layers) {
      values.push_back(static_cast<int64_t>(layer.*of_layer));
    }
    return writer.AddArray(name, {ValueType::kU32, std::move(values)});
  };
  TC_RETURN_IF_ERROR(
      add(".feed_forward_length", &TinyLayer::ffn_width, spec.ffn_width));
  TC_RETURN_IF_ERROR(
      add(".attention.head_count", &TinyLayer::num_heads, spec.num_heads));
  TC_RETURN_IF_ERROR(add(".attention.head_count_kv", &TinyLayer::num_kv_heads,
                         spec.num_kv_heads));
  if (spec.num_experts > 0) {
    TC_RETURN_IF_ERROR(add(".expert_feed_forward_length", &TinyLayer::ffn_width,
                           spec.ffn_width));
  }
  const size_t head_width = SpecOf(spec, 0).head_width;
  for (const TinyLayer& layer : spec.layers) {
    if (layer.head_width != head_width) return {};
  }
  const auto add_int = [&](const char* key, size_t value) {
    return writer.AddInt(spec.architecture + key, ValueType::kU32,
                         static_cast<int64_t>(value));
  };
  TC_RETURN_IF_ERROR(add_int(".attention.key_length", head_width));
  TC_RETURN_IF_ERROR(add_int(".attention.value_length", head_width));
  return add_int(".rope.dimension_count", spec.rope_width.value_or(head_width));
}

// Which layer's input predictors read, or how KAIROX's are sized.
Status AddPredictorKeys(const TinySpec& spec, gguf::Writer& writer) {
  if (spec.lookahead) {
    TC_RETURN_IF_ERROR(
        writer.AddInt("thermocline.version", ValueType::kU32, 1));
    return writer.AddInt("thermocline.predictor.lookahead", ValueType::kU32,
                         *spec.lookahead);
  }
  if (spec.low_ranks.empty()) return {};
  return writer.AddArray(
      "predictor.low_ranks",
      {ValueType::kI32,
       std::vector<int64_t>(spec.low_ranks.begin(), spec.low_ranks.end())});
}

Status AddMetadata(const TinySpec& spec, gguf::Writer& writer) {
  const std::string& arch = spec.architecture;
  TC_RETURN_IF_ERROR(writer.AddString("general.architecture", arch));
  const auto add_int = [&](const char* key, size_t value) {
    return writer.AddInt(arch + key, ValueType::kU32,
                         static_cast<int64_t>(value));
  };
  TC_RETURN_IF_ERROR(
      add_int(".context_length", static_cast<size_t>(spec.context_length)));
  TC_RETURN_IF_ERROR(add_int(".embedding_length", spec.width));
  TC_RETURN_IF_ERROR(add_int(".block_count", spec.num_layers));
  TC_RETURN_IF_ERROR(AddShapes(spec, writer));
  TC_RETURN_IF_ERROR(add_int(".vocab_size", spec.vocab_size));
  if (spec.norm_epsilon.has_value()) {
    const char* key = HasLayerNorm(spec) ? ".attention.layer_norm_epsilon"
                                         : ".attention.layer_norm_rms_epsilon";
    TC_RETURN_IF_ERROR(writer.AddFloat(arch + key, *spec.norm_epsilon));
  }
  if (spec.num_experts > 0) {
    TC_RETURN_IF_ERROR(add_int(".expert_count", spec.num_experts));
    TC_RETURN_IF_ERROR(add_int(".expert_used_count", spec.num_experts_used));
  }
  TC_RETURN_IF_ERROR(writer.AddFloat(arch + ".rope.freq_base", spec.rope_base));
  if (!spec.rope_scaling.empty()) {
    TC_RETURN_IF_ERROR(
        writer.AddString(arch + ".rope.scaling.type", spec.rope_scaling));
    TC_RETURN_IF_ERROR(
        writer.AddFloat(arch + ".rope.scaling.factor", spec.rope_factor));
    if (spec.rope_original_context > 0) {
      TC_RETURN_IF_ERROR(
          add_int(".rope.scaling.original_context_length",
                  static_cast<size_t>(spec.rope_original_context)));
    }
  }
  if (!spec.activation.empty()) {
    TC_RETURN_IF_ERROR(
        writer.AddString("thermocline.ffn.activation", spec.activation));
  }
  TC_RETURN_IF_ERROR(AddPredictorKeys(spec, writer));
  if (spec.threshold.has_value()) {
    TC_RETURN_IF_ERROR(
        writer.AddFloat("thermocline.ffn.threshold", *spec.threshold));
  }
  if (!spec.thresholds.empty()) {
    TC_RETURN_IF_ERROR(
        writer.AddInt("thermocline.version", ValueType::kU32, 1));
    TC_RETURN_IF_ERROR(writer.AddArray(
        "thermocline.ffn.thresholds",
        {ValueType::kF32,
         std::vector<double>(spec.thresholds.begin(), spec.thresholds.end())}));
  }
  return {};
}

// `values` comes with those of the tensor before and leaves with this one's.
Status WriteTensor(const TinySpec& spec, const Tensor& tensor, Random& random,
                   std::vector<float>& values, gguf::Writer& writer) {
  const std::vector<float> before = std::move(values);
  values.assign(ShapeOf(tensor.ne).num_elems(), 0.0f);
  if (spec.both_downs && tensor.name.ends_with("ffn_down_t.weight")) {
    const size_t width = tensor.ne[0];
    const size_t ffn_width = tensor.ne[1];
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = before[i % width * ffn_width + i / width];
    }
  } else {
    for (float& value : values) {
      value = tensor.offset + random.Uniform(-tensor.scale, tensor.scale);
    }
  }
  if (spec.edit) spec.edit(tensor.name, values);
  std::vector<std::byte> bytes(BytesOf(tensor.dtype, values.size()));
  QuantizeRow(tensor.dtype, values, bytes.data());
  return writer.WriteTensorData(bytes);
}

Status WriteModel(const TinySpec& spec, const std::string& path) {
  TC_ASSIGN_OR_RETURN(const auto writer,
                      gguf::Writer::Create(path, spec.container));
  TC_RETURN_IF_ERROR(AddMetadata(spec, *writer));
  const std::vector<Tensor> tensors = TensorsOf(spec);
  for (const Tensor& tensor : tensors) {
    TC_RETURN_IF_ERROR(
        writer->DeclareTensor(tensor.name, tensor.dtype, ShapeOf(tensor.ne)));
  }
  TC_RETURN_IF_ERROR(writer->Start());
  Random random(spec.seed);
  std::vector<float> values;
  for (const Tensor& tensor : tensors) {
    TC_RETURN_IF_ERROR(WriteTensor(spec, tensor, random, values, *writer));
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

void UseUnlikeLayers(size_t head_width, TinySpec& spec) {
  if (head_width == 0) {
    spec.width = 96;
    spec.layers = {
        {6, 2, 16, 160}, {3, 3, 32, 288}, {12, 1, 8, 96}, {3, 1, 32, 64}};
  } else {
    spec.layers = {{6, 2, head_width, 160},
                   {4, 4, head_width, 288},
                   {2, 1, head_width, 96},
                   {8, 2, head_width, 416}};
  }
  spec.num_layers = spec.layers.size();
}

void UseArchitecture(const std::string& name, TinySpec& spec) {
  spec.architecture = name == "mixtral" ? "llama" : name;
  if (name == "mixtral" || name == "qwen3moe") {
    spec.num_experts = 8;
    spec.num_experts_used = 2;
  }
  if (name == "nemotron") spec.rope_width = spec.head_width / 2;
  spec.biases = name.ends_with("qwen2");
  if (IsOpt(spec)) {
    spec.num_kv_heads = spec.num_heads;
    spec.tied = true;
  }
}

Result<std::shared_ptr<const model::Model>> OpenTinyModel(
    const TinySpec& spec, const model::OpenOptions& options) {
  static std::atomic<int> counter = 0;
  const std::string path = fmt::format(
      "{}/tiny-{}-{}.gguf", ::testing::TempDir(), getpid(), counter++);
  TC_RETURN_IF_ERROR(WriteModel(spec, path));
  auto model = model::Model::Open(path, options);
  std::remove(path.c_str());
  return model;
}

std::shared_ptr<const model::Model> MakeTinyModel(const TinySpec& spec) {
  const auto model = OpenTinyModel(spec);
  if (!model.has_value()) {
    ADD_FAILURE() << model.error().message;
    return nullptr;
  }
  return *model;
}

Result<std::vector<std::string>> LeaveRecords(const gguf::File& /*file*/,
                                              const model::Config& config) {
  std::vector<std::string> names;
  for (size_t i = 0; i < config.records.size(); ++i) {
    names.push_back(model::prepared::OfLayer(i, model::prepared::kRecords));
  }
  return names;
}

std::vector<text::TokenId> RandomTokens(size_t count, size_t vocab_size,
                                        uint64_t seed) {
  Random random(seed);
  std::vector<text::TokenId> tokens(count);
  for (text::TokenId& token : tokens) {
    token = static_cast<text::TokenId>(random.Below(vocab_size));
  }
  return tokens;
}

std::vector<float> DecodeAll(const std::shared_ptr<const model::Model>& model,
                             const std::vector<text::TokenId>& tokens,
                             SessionOptions options, Phase phase) {
  options.k_type = options.v_type = DType::kF32;
  const auto session = Session::Create(model, options);
  if (!session.has_value()) {
    ADD_FAILURE() << session.error().message;
    return {};
  }
  std::vector<float> logits(tokens.size() * model->config().vocab_size);
  const Status status =
      (*session)->Decode(tokens, phase, LogitsOf::kAll, logits);
  EXPECT_TRUE(status.has_value()) << status.error().message;
  return logits;
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
  EXPECT_EQ(model->config().layers[2].attention.num_kv_heads, 2);
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

// For tests: small models with random weights, of any architecture.
#ifndef THERMOCLINE_NPU_TEST_NPU_MODEL_H_
#define THERMOCLINE_NPU_TEST_NPU_MODEL_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "gguf/test_file.h"
#include "model/architectures.h"
#include "model/model.h"
#include "tensor/codec.h"

namespace thermocline::npu {

struct NpuModelSpec {
  std::string architecture = "llama";
  size_t num_layers = 2;
  size_t width = 64;
  size_t ffn_width = 96;
  size_t num_heads = 6;
  size_t num_kv_heads = 2;
  size_t key_width = 16;
  size_t value_width = 16;
  size_t vocab_size = 40;
  DType dtype = DType::kF16;         // of every matrix but
  std::optional<DType> down_dtype;   // ffn_down
  std::optional<size_t> rope_width;  // of a head; absent: all of it
  bool biases = false;               // of q, k and v
  bool two_norms = false;            // falcon: attn_norm_2
  bool down_t = false;               // in the place of ffn_down
  std::string activation = {};       // thermocline.ffn.activation
  std::optional<float> threshold;
  float rope_magnitude = 1.0f;
  float norm_epsilon = 1e-2f;
  // May change a tensor's values before they are written.
  std::function<void(const std::string& name, std::span<float> values)> edit;
};

namespace test_npu_model_internal {

class FileMaker {
 public:
  explicit FileMaker(const NpuModelSpec& spec)
      : spec_(spec), form_(*model::FindArchitecture(spec.architecture)) {}

  gguf::TestFile Make() {
    AddKeys();
    Add("token_embd.weight", spec_.dtype, {spec_.width, spec_.vocab_size});
    Add("output.weight", spec_.dtype, {spec_.width, spec_.vocab_size});
    AddNorm("output_norm");
    if (form_.learned_positions) {
      Add("position_embd.weight", spec_.dtype, {spec_.width, 128});
    }
    for (size_t i = 0; i < spec_.num_layers; ++i) {
      prefix_ = "blk." + std::to_string(i) + ".";
      AddAttention();
      AddFfn();
    }
    return std::move(file_);
  }

 private:
  void Key(const char* key, size_t value) {
    file_.SetU32(spec_.architecture + key, static_cast<uint32_t>(value));
  }
  void AddKeys() {
    file_.SetText("general.architecture", spec_.architecture);
    Key(".context_length", 128);
    Key(".block_count", spec_.num_layers);
    Key(".embedding_length", spec_.width);
    Key(".feed_forward_length", spec_.ffn_width);
    Key(".attention.head_count", spec_.num_heads);
    Key(".attention.head_count_kv", spec_.num_kv_heads);
    Key(".attention.key_length", spec_.key_width);
    Key(".attention.value_length", spec_.value_width);
    Key(".vocab_size", spec_.vocab_size);
    Key(".rope.dimension_count", spec_.rope_width.value_or(spec_.key_width));
    const bool is_layer_norm = form_.norm == NormKind::kLayer;
    file_.SetF32(spec_.architecture +
                     (is_layer_norm ? ".attention.layer_norm_epsilon"
                                    : ".attention.layer_norm_rms_epsilon"),
                 spec_.norm_epsilon);
    if (spec_.rope_magnitude != 1.0f) {
      file_.SetF32(spec_.architecture + ".rope.scaling.attn_factor",
                   spec_.rope_magnitude);
    }
    if (!spec_.activation.empty()) {
      file_.SetText("thermocline.ffn.activation", spec_.activation);
    }
    if (spec_.threshold) {
      file_.SetF32("thermocline.ffn.threshold", *spec_.threshold);
    }
  }

  // Matrices keep the size of what they multiply.
  void Add(const std::string& name, DType dtype, std::vector<uint64_t> ne) {
    const bool is_vector = ne.size() == 1;
    const float bound =
        is_vector ? 0.3f : std::sqrt(3.0f / static_cast<float>(ne[0]));
    const float offset = is_vector && name.ends_with("weight") ? 1.0f : 0.1f;
    std::vector<float> values(ne[0] * (is_vector ? 1 : ne[1]));
    for (float& value : values) {
      value = (is_vector ? offset : 0.0f) + random_.Uniform(-bound, bound);
    }
    if (spec_.edit) spec_.edit(prefix_ + name, values);
    std::string bytes(BytesOf(dtype, values.size()), '\0');
    QuantizeRow(dtype, values, reinterpret_cast<std::byte*>(bytes.data()));
    file_.SetTensor(prefix_ + name, dtype, std::move(ne), bytes);
  }
  void AddVector(const std::string& name, size_t size) {
    Add(name, DType::kF32, {size});
  }
  void AddNorm(const std::string& name) {
    AddVector(name + ".weight", spec_.width);
    if (form_.norm == NormKind::kLayer) AddVector(name + ".bias", spec_.width);
  }

  void AddAttention() {
    const size_t q = spec_.num_heads * spec_.key_width;
    const size_t k = spec_.num_kv_heads * spec_.key_width;
    const size_t v = spec_.num_kv_heads * spec_.value_width;
    const size_t out = spec_.num_heads * spec_.value_width;
    AddNorm("attn_norm");
    if (spec_.two_norms) AddNorm("attn_norm_2");
    Add("attn_q.weight", spec_.dtype, {spec_.width, q});
    Add("attn_k.weight", spec_.dtype, {spec_.width, k});
    Add("attn_v.weight", spec_.dtype, {spec_.width, v});
    Add("attn_output.weight", spec_.dtype, {out, spec_.width});
    if (form_.qk_norm == model::QkNorm::kPerHead) {
      AddVector("attn_q_norm.weight", spec_.key_width);
      AddVector("attn_k_norm.weight", spec_.key_width);
    }
    if (form_.other_biases) AddVector("attn_output.bias", spec_.width);
    if (!spec_.biases && !form_.qkv_bias) return;
    AddVector("attn_q.bias", q);
    AddVector("attn_k.bias", k);
    AddVector("attn_v.bias", v);
  }

  void AddFfn() {
    if (!form_.parallel_block) AddNorm("ffn_norm");
    const size_t width = spec_.ffn_width;
    if (form_.gated) Add("ffn_gate.weight", spec_.dtype, {spec_.width, width});
    Add("ffn_up.weight", spec_.dtype, {spec_.width, width});
    const DType dtype = spec_.down_dtype.value_or(spec_.dtype);
    if (spec_.down_t) {
      Add("ffn_down_t.weight", dtype, {spec_.width, width});
    } else {
      Add("ffn_down.weight", dtype, {width, spec_.width});
    }
    if (!form_.other_biases) return;
    AddVector("ffn_up.bias", width);
    AddVector(spec_.down_t ? "ffn_down_t.bias" : "ffn_down.bias", spec_.width);
  }

  const NpuModelSpec& spec_;
  const model::Architecture& form_;
  Random random_{11};
  std::string prefix_;
  gguf::TestFile file_;
};

}  // namespace test_npu_model_internal

// Opens a file of a test. Fails the calling test when it cannot.
inline std::shared_ptr<const model::Model> OpenNpuModel(
    gguf::TestFile file, const model::OpenOptions& options = {}) {
  struct Holder {
    explicit Holder(const std::string& bytes) : copy(bytes) {}
    gguf::ParsedCopy copy;
    std::shared_ptr<const model::Model> model;
  };
  const auto holder = std::make_shared<Holder>(file.Bytes());
  if (!holder->copy.file.has_value()) {
    ADD_FAILURE() << holder->copy.file.error().message;
  }
  TC_CHECK(holder->copy.file.has_value());
  auto model = model::Model::FromFile(*std::move(holder->copy.file), options);
  if (!model.has_value()) ADD_FAILURE() << model.error().message;
  TC_CHECK(model.has_value());
  holder->model = *std::move(model);
  return {holder, holder->model.get()};
}

inline std::shared_ptr<const model::Model> MakeNpuModel(
    const NpuModelSpec& spec, const model::OpenOptions& options = {}) {
  return OpenNpuModel(test_npu_model_internal::FileMaker(spec).Make(), options);
}

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_TEST_NPU_MODEL_H_

// For tests: tiny, valid files to be made wrong.
#ifndef THERMOCLINE_MODEL_TEST_MODEL_H_
#define THERMOCLINE_MODEL_TEST_MODEL_H_

#include <string>
#include <vector>

#include "gguf/test_file.h"
#include "model/architectures.h"

namespace thermocline::model {

inline constexpr int kTestLayers = 2;

// D = 32, F = 64, H = 4, KVH = 2, K = 8, V = 6, all weights zero; an SPM
// vocabulary of 6 tokens. Of any architecture that runs; `opt` has as many rows
// of positions as its context.
inline gguf::TestFile TestModel(const std::string& architecture = "llama");

// Gives a model experts in the place of its FFNs: E = 4, 2 used.
inline void AddExperts(gguf::TestFile& file, const std::string& architecture) {
  file.SetU32(architecture + ".expert_count", 4)
      .SetU32(architecture + ".expert_used_count", 2);
  for (int i = 0; i < kTestLayers; ++i) {
    const std::string blk = "blk." + std::to_string(i) + ".";
    for (const char* name : {"ffn_gate", "ffn_up", "ffn_down"}) {
      file.RemoveTensor(blk + name + ".weight");
    }
    file.SetTensor(blk + "ffn_gate_inp.weight", DType::kF32, {32, 4})
        .SetTensor(blk + "ffn_gate_exps.weight", DType::kQ8_0, {32, 64, 4})
        .SetTensor(blk + "ffn_up_exps.weight", DType::kQ8_0, {32, 64, 4})
        .SetTensor(blk + "ffn_down_exps.weight", DType::kQ8_0, {64, 32, 4});
  }
}

inline gguf::TestFile TestModel(const std::string& architecture) {
  const Architecture& form = *FindArchitecture(architecture);
  const bool has_layer_norm = form.norm == NormKind::kLayer;
  const std::string a = architecture + ".";
  gguf::TestFile file;
  file.SetText("general.architecture", architecture)
      .SetText("general.name", "test")
      .SetU32(a + "context_length", 128)
      .SetU32(a + "block_count", kTestLayers)
      .SetU32(a + "embedding_length", 32)
      .SetU32(a + "feed_forward_length", 64)
      .SetU32(a + "attention.head_count", 4)
      .SetU32(a + "attention.head_count_kv", 2)
      .SetF32(a + (has_layer_norm ? "attention.layer_norm_epsilon"
                                  : "attention.layer_norm_rms_epsilon"),
              1e-5f)
      .SetText("tokenizer.ggml.model", "llama")
      .SetTexts("tokenizer.ggml.tokens",
                {"<unk>", "<s>", "</s>", "a", "b", "ab"})
      .SetNumbers<float>("tokenizer.ggml.scores", gguf::ValueType::kF32,
                         {0, 0, 0, -1, -2, -3})
      .SetNumbers<int32_t>("tokenizer.ggml.token_type", gguf::ValueType::kI32,
                           {2, 3, 3, 1, 1, 1});
  const auto set_norm = [&](const std::string& name) {
    file.SetTensor(name + ".weight", DType::kF32, {32});
    if (has_layer_norm) file.SetTensor(name + ".bias", DType::kF32, {32});
  };
  file.SetTensor("token_embd.weight", DType::kF16, {32, 6})
      .SetTensor("output.weight", DType::kQ8_0, {32, 6});
  set_norm("output_norm");
  if (form.learned_positions) {
    file.SetTensor("position_embd.weight", DType::kF16, {32, 128});
  }
  for (int i = 0; i < kTestLayers; ++i) {
    const std::string blk = "blk." + std::to_string(i) + ".";
    set_norm(blk + "attn_norm");
    if (!form.parallel_block) set_norm(blk + "ffn_norm");
    file.SetTensor(blk + "attn_q.weight", DType::kF16, {32, 32})
        .SetTensor(blk + "attn_k.weight", DType::kF16, {32, 16})
        .SetTensor(blk + "attn_v.weight", DType::kF16, {32, 16})
        .SetTensor(blk + "attn_output.weight", DType::kF16, {32, 32})
        .SetTensor(blk + "ffn_up.weight", DType::kQ4_0, {32, 64})
        .SetTensor(blk + "ffn_down.weight", DType::kQ4_0, {64, 32});
    if (form.gated) {
      file.SetTensor(blk + "ffn_gate.weight", DType::kQ4_0, {32, 64});
    }
    if (form.other_biases) {
      file.SetTensor(blk + "attn_output.bias", DType::kF32, {32})
          .SetTensor(blk + "ffn_up.bias", DType::kF32, {64})
          .SetTensor(blk + "ffn_down.bias", DType::kF32, {32});
    }
    if (form.qk_norm == QkNorm::kPerHead) {
      file.SetTensor(blk + "attn_q_norm.weight", DType::kF32, {8})
          .SetTensor(blk + "attn_k_norm.weight", DType::kF32, {8});
    }
    if (!form.qkv_bias) continue;
    file.SetTensor(blk + "attn_q.bias", DType::kF32, {32})
        .SetTensor(blk + "attn_k.bias", DType::kF32, {16})
        .SetTensor(blk + "attn_v.bias", DType::kF32, {16});
  }
  if (form.mixture == Mixture::kAlways) {
    file.SetU32(a + "expert_feed_forward_length", 64);
    AddExperts(file, architecture);
  }
  return file;
}

// Layers of 2 and 1 heads of keys, and of 64 and 96 neurons.
inline gguf::TestFile TestUnlikeModel() {
  gguf::TestFile file = TestModel();
  const auto set = [&](const char* key, const std::vector<uint32_t>& values) {
    file.SetNumbers<uint32_t>(key, gguf::ValueType::kU32, values);
  };
  set("llama.feed_forward_length", {64, 96});
  set("llama.attention.head_count", {4, 4});
  set("llama.attention.head_count_kv", {2, 1});
  file.SetTensor("blk.1.ffn_gate.weight", DType::kQ4_0, {32, 96})
      .SetTensor("blk.1.ffn_up.weight", DType::kQ4_0, {32, 96})
      .SetTensor("blk.1.ffn_down.weight", DType::kQ4_0, {96, 32})
      .SetTensor("blk.1.attn_k.weight", DType::kF16, {32, 8})
      .SetTensor("blk.1.attn_v.weight", DType::kF16, {32, 8});
  return file;
}

// A layer's q, k and v in one tensor, as Falcon has them.
inline void FuseQkv(gguf::TestFile& file) {
  for (int i = 0; i < kTestLayers; ++i) {
    const std::string blk = "blk." + std::to_string(i) + ".";
    for (const char* name : {"attn_q", "attn_k", "attn_v"}) {
      file.RemoveTensor(blk + name + ".weight");
    }
    file.SetTensor(blk + "attn_qkv.weight", DType::kF16, {32, 64});
  }
}

// Mixtral's form: E = 4, 2 used.
inline gguf::TestFile TestExpertModel() {
  gguf::TestFile file = TestModel();
  AddExperts(file, "llama");
  return file;
}

// PowerInfer's form: neuron-major down, predictors of rank 32 and 64.
inline gguf::TestFile TestPowerInferModel(
    const std::string& architecture = "llama") {
  gguf::TestFile file = TestModel(architecture);
  file.magic = "PWRI";
  for (int i = 0; i < kTestLayers; ++i) {
    const std::string blk = "blk." + std::to_string(i) + ".";
    const uint64_t rank = 32 * (static_cast<uint64_t>(i) + 1);
    file.RemoveTensor(blk + "ffn_down.weight")
        .SetTensor(blk + "ffn_down_t.weight", DType::kQ4_0, {32, 64})
        .SetTensor(blk + "fc1.weight", DType::kF16, {32, rank})
        .SetTensor(blk + "fc2.weight", DType::kF16, {rank, 64});
  }
  return file;
}

// KAIROX's form: both downs, a predictor with biases of rank 16 in layer 1
// only.
inline gguf::TestFile TestKairoxModel(
    const std::string& architecture = "prosparse-llama") {
  gguf::TestFile file = TestModel(architecture);
  file.SetNumbers<int32_t>("predictor.low_ranks", gguf::ValueType::kI32,
                           {0, 16});
  for (int i = 0; i < kTestLayers; ++i) {
    file.SetTensor("blk." + std::to_string(i) + ".ffn_down_t.weight",
                   DType::kQ4_0, {32, 64});
  }
  file.SetTensor("blk.1.ffn_pred_up.weight", DType::kF16, {32, 16})
      .SetTensor("blk.1.ffn_pred_up.bias", DType::kF32, {16})
      .SetTensor("blk.1.ffn_pred_down.weight", DType::kF16, {16, 64})
      .SetTensor("blk.1.ffn_pred_down.bias", DType::kF32, {64});
  return file;
}

}  // namespace thermocline::model

#endif  // THERMOCLINE_MODEL_TEST_MODEL_H_

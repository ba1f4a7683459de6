// For tests: a tiny, valid llama or qwen2 file to be made wrong.
#ifndef THERMOCLINE_MODEL_TEST_MODEL_H_
#define THERMOCLINE_MODEL_TEST_MODEL_H_

#include <string>
#include <vector>

#include "gguf/test_file.h"

namespace thermocline::model {

inline constexpr int kTestLayers = 2;

// D = 32, F = 64, H = 4, KVH = 2, K = 8, V = 6, all weights zero; an SPM
// vocabulary of 6 tokens.
inline gguf::TestFile TestModel(const std::string& architecture = "llama") {
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
      .SetF32(a + "attention.layer_norm_rms_epsilon", 1e-5f)
      .SetText("tokenizer.ggml.model", "llama")
      .SetTexts("tokenizer.ggml.tokens",
                {"<unk>", "<s>", "</s>", "a", "b", "ab"})
      .SetNumbers<float>("tokenizer.ggml.scores", gguf::ValueType::kF32,
                         {0, 0, 0, -1, -2, -3})
      .SetNumbers<int32_t>("tokenizer.ggml.token_type", gguf::ValueType::kI32,
                           {2, 3, 3, 1, 1, 1});
  file.SetTensor("token_embd.weight", DType::kF16, {32, 6})
      .SetTensor("output.weight", DType::kQ8_0, {32, 6})
      .SetTensor("output_norm.weight", DType::kF32, {32});
  for (int i = 0; i < kTestLayers; ++i) {
    const std::string blk = "blk." + std::to_string(i) + ".";
    file.SetTensor(blk + "attn_norm.weight", DType::kF32, {32})
        .SetTensor(blk + "attn_q.weight", DType::kF16, {32, 32})
        .SetTensor(blk + "attn_k.weight", DType::kF16, {32, 16})
        .SetTensor(blk + "attn_v.weight", DType::kF16, {32, 16})
        .SetTensor(blk + "attn_output.weight", DType::kF16, {32, 32})
        .SetTensor(blk + "ffn_norm.weight", DType::kF32, {32})
        .SetTensor(blk + "ffn_gate.weight", DType::kQ4_0, {32, 64})
        .SetTensor(blk + "ffn_up.weight", DType::kQ4_0, {32, 64})
        .SetTensor(blk + "ffn_down.weight", DType::kQ4_0, {64, 32});
    if (architecture != "qwen2") continue;
    file.SetTensor(blk + "attn_q.bias", DType::kF32, {32})
        .SetTensor(blk + "attn_k.bias", DType::kF32, {16})
        .SetTensor(blk + "attn_v.bias", DType::kF32, {16});
  }
  return file;
}

}  // namespace thermocline::model

#endif  // THERMOCLINE_MODEL_TEST_MODEL_H_

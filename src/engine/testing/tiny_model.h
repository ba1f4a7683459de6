// Small random models, made as files and opened, for tests.
#ifndef THERMOCLINE_ENGINE_TESTING_TINY_MODEL_H_
#define THERMOCLINE_ENGINE_TESTING_TINY_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/model.h"
#include "tensor/dtype.h"
#include "text/vocab.h"

namespace thermocline::engine::testing {

struct TinySpec {
  std::string architecture = "llama";
  int64_t num_layers = 2;
  int64_t width = 96;
  int64_t ffn_width = 160;
  int64_t num_heads = 6;
  int64_t num_kv_heads = 2;
  int64_t head_width = 16;
  int64_t vocab_size = 50;
  int64_t context_length = 64;
  DType dtype = DType::kF32;             // of every matrix but
  std::optional<DType> value_dtype;      // attn_v and ffn_down,
  std::optional<DType> embedding_dtype;  // and token_embd
  bool tied = false;
  bool biases = false;  // of q, k, v
  bool freq_factors = false;
  float norm_epsilon = 1e-5f;
  float embedding_scale = 1.0f;
  float rope_base = 10000.0f;
  std::string rope_scaling;  // "linear", "yarn"
  float rope_factor = 1.0f;
  int64_t rope_original_context = 0;
  std::string activation;  // thermocline.ffn.activation
  std::optional<float> threshold;
  uint64_t seed = 1;
  // May change a tensor's values before they are written.
  std::function<void(const std::string& name, std::span<float> values)> edit;
};

// Rows that divide into the blocks of every type, heads that divide into 32.
TinySpec WideSpec(DType dtype);

// Fails the calling test when it cannot.
std::shared_ptr<const model::Model> MakeTinyModel(const TinySpec& spec);

// `count` ids of the vocabulary, the same for the same arguments.
std::vector<text::TokenId> RandomTokens(size_t count, int64_t vocab_size,
                                        uint64_t seed = 7);

// sum (a - b)^2 / sum b^2; infinity when the sizes differ.
double Nmse(std::span<const float> a, std::span<const double> b);
double Nmse(std::span<const float> a, std::span<const float> b);

}  // namespace thermocline::engine::testing

#endif  // THERMOCLINE_ENGINE_TESTING_TINY_MODEL_H_

// For tests: folders as Hugging Face lays them out, made from model files by
// the inverse of each layout and without the converter's code.
#ifndef THERMOCLINE_IMPORT_TEST_HF_LAYOUT_H_
#define THERMOCLINE_IMPORT_TEST_HF_LAYOUT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "gguf/gguf.h"
#include "import/hf_test_folder.h"
#include "tensor/codec.h"

namespace thermocline::importer {

inline TestTensor Read(const gguf::File& file, const std::string& name) {
  const TensorView view = file.Tensor(name);
  EXPECT_TRUE(view) << name;
  TestTensor tensor;
  if (!view) return tensor;
  tensor.dtype = view.dtype == DType::kF32 ? "F32" : "F16";
  for (int i = view.shape.rank - 1; i >= 0; --i) {
    tensor.shape.push_back(view.shape.ne[static_cast<size_t>(i)]);
  }
  tensor.values.resize(view.shape.num_elems());
  DequantizeRow(view.dtype, view.data, tensor.values);
  return tensor;
}

// Row r of the result is row row_of(r) of `tensor`.
template <typename RowOf>
inline TestTensor Reordered(const TestTensor& tensor, const RowOf& row_of) {
  const size_t num_rows = tensor.shape.front();
  const size_t width = tensor.values.size() / num_rows;
  TestTensor reordered = tensor;
  for (size_t r = 0; r < num_rows; ++r) {
    std::copy_n(
        tensor.values.begin() + static_cast<ptrdiff_t>(row_of(r) * width),
        width, reordered.values.begin() + static_cast<ptrdiff_t>(r * width));
  }
  return reordered;
}

// From pairs side by side, as in GGUF, to halves, as Hugging Face has them.
inline TestTensor ToHalves(const TestTensor& tensor, size_t head_width) {
  return Reordered(tensor, [&](size_t r) {
    const size_t i = r % head_width;
    const size_t half = head_width / 2;
    return r - i + 2 * (i % half) + i / half;
  });
}

// The reverse.
inline TestTensor ToPairs(const TestTensor& tensor, size_t head_width) {
  return Reordered(tensor, [&](size_t r) {
    const size_t i = r % head_width;
    return r - i + i % 2 * (head_width / 2) + i / 2;
  });
}

inline TestTensor Transposed(const TestTensor& tensor) {
  const size_t rows = tensor.shape.at(0);
  const size_t columns = tensor.shape.at(1);
  TestTensor transposed = {tensor.dtype, {columns, rows}, tensor.values};
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns; ++c) {
      transposed.values[c * rows + r] = tensor.values[r * columns + c];
    }
  }
  return transposed;
}

// PowerInfer's files have it the other way round.
inline TestTensor ReadDown(const gguf::File& file, const std::string& prefix) {
  return file.Tensor(prefix + "ffn_down_t.weight")
             ? Transposed(Read(file, prefix + "ffn_down_t.weight"))
             : Read(file, prefix + "ffn_down.weight");
}

struct Sizes {
  size_t layers, heads, kv_heads, head_width, experts;
};

inline Sizes SizesOf(const gguf::File& file, const std::string& arch) {
  const auto get = [&](const std::string& key) {
    return static_cast<size_t>(file.Int(arch + "." + key).value().value_or(0));
  };
  const size_t heads = get("attention.head_count");
  return {get("block_count"), heads, get("attention.head_count_kv"),
          get("attention.key_length") > 0 ? get("attention.key_length")
                                          : get("embedding_length") / heads,
          get("expert_count")};
}

// The part of config.json that both families share.
inline Json CommonConfig(const gguf::File& file, const std::string& arch) {
  const auto get = [&](const std::string& key) {
    return file.Int(arch + "." + key).value().value();
  };
  return {{"hidden_size", get("embedding_length")},
          {"num_hidden_layers", get("block_count")},
          {"num_attention_heads", get("attention.head_count")},
          {"max_position_embeddings", get("context_length")},
          {"rope_theta",
           file.Float(arch + ".rope.freq_base").value().value_or(10000.0)}};
}

// The class of a GGUF file's architecture.
inline std::string ClassOf(const std::string& arch, bool has_experts) {
  if (arch == "qwen2") return "Qwen2ForCausalLM";
  if (arch == "qwen3") return "Qwen3ForCausalLM";
  if (arch == "qwen3moe") return "Qwen3MoeForCausalLM";
  if (arch == "bamboo") return "BambooForCausalLM";
  if (arch == "nemotron") return "NemotronForCausalLM";
  if (arch == "arcee") return "ArceeForCausalLM";
  return has_experts ? "MixtralForCausalLM" : "LlamaForCausalLM";
}

inline Json YarnScaling(const gguf::File& file, const std::string& prefix) {
  return {{"rope_type", "yarn"},
          {"factor", file.Float(prefix + "factor").value().value()},
          {"original_max_position_embeddings",
           file.Int(prefix + "original_context_length").value().value()}};
}

// What Qwen's mixtures say.
inline void AddQwenExperts(const gguf::File& file, Json& config) {
  const auto get = [&](const char* key) {
    return file.Int(std::string("qwen3moe.") + key).value().value();
  };
  config["num_experts"] = get("expert_count");
  config["num_experts_per_tok"] = get("expert_used_count");
  config["moe_intermediate_size"] = get("expert_feed_forward_length");
  config["norm_topk_prob"] = true;
  config["decoder_sparse_step"] = 1;
  config["mlp_only_layers"] = Json::array();
}

inline Json LlamaConfig(const gguf::File& file, const std::string& arch) {
  Json config = CommonConfig(file, arch);
  const auto num_experts = file.Int(arch + ".expert_count").value();
  const bool is_bamboo = arch == "bamboo";
  const bool is_nemotron = arch == "nemotron";
  config["architectures"] = {ClassOf(arch, num_experts.has_value())};
  config["head_dim"] = SizesOf(file, arch).head_width;
  config["hidden_act"] = is_bamboo                        ? "relu"
                         : is_nemotron || arch == "arcee" ? "relu2"
                                                          : "silu";
  const std::string scaling = arch + ".rope.scaling.";
  if (file.String(scaling + "type").value() == "yarn") {
    config["rope_scaling"] = YarnScaling(file, scaling);
  }
  if (is_nemotron) config["partial_rotary_factor"] = 0.5;
  config["tie_word_embeddings"] = !file.Tensor("output.weight");
  config["intermediate_size"] =
      file.Int(arch + ".feed_forward_length").value().value();
  config["num_key_value_heads"] =
      file.Int(arch + ".attention.head_count_kv").value().value();
  config[is_nemotron ? "norm_eps" : "rms_norm_eps"] =
      file.Float(arch + ".attention.layer_norm_rms_epsilon").value().value();
  if (arch == "qwen3moe") {
    AddQwenExperts(file, config);
  } else if (num_experts) {
    config["num_local_experts"] = *num_experts;
    config["num_experts_per_tok"] =
        file.Int(arch + ".expert_used_count").value().value();
  }
  return config;
}

inline void AddExperts(const gguf::File& file, const std::string& from,
                       const std::string& to, bool is_mixtral,
                       TestTensors& tensors) {
  tensors[to + "gate.weight"] = Read(file, from + "ffn_gate_inp.weight");
  for (const auto& [gguf_name, hf_name] :
       {std::pair("ffn_gate_exps.weight", is_mixtral ? "w1" : "gate_proj"),
        std::pair("ffn_up_exps.weight", is_mixtral ? "w3" : "up_proj"),
        std::pair("ffn_down_exps.weight", is_mixtral ? "w2" : "down_proj")}) {
    const TestTensor stack = Read(file, from + gguf_name);
    const size_t size = stack.values.size() / stack.shape[0];
    for (size_t e = 0; e < stack.shape[0]; ++e) {
      const auto begin =
          stack.values.begin() + static_cast<ptrdiff_t>(e * size);
      tensors[fmt::format("{}experts.{}.{}.weight", to, e, hf_name)] = {
          stack.dtype,
          {stack.shape[1], stack.shape[2]},
          {begin, begin + static_cast<ptrdiff_t>(size)}};
    }
  }
}

// A norm's weight and bias, if it has one; Nemotron's without the 1.
inline void AddNorm(const gguf::File& file, const std::string& from,
                    const std::string& to, bool lacks_one,
                    TestTensors& tensors) {
  TestTensor& weight = tensors[to + ".weight"] = Read(file, from + ".weight");
  for (float& value : weight.values) value -= lacks_one ? 1.0f : 0.0f;
  if (!file.Tensor(from + ".bias")) return;
  tensors[to + ".bias"] = Read(file, from + ".bias");
}

inline TestTensors LlamaTensors(const gguf::File& file,
                                const std::string& arch) {
  const bool lacks_one = arch == "nemotron";
  const bool halves = arch == "nemotron" || arch.starts_with("qwen");
  const Sizes sizes = SizesOf(file, arch);
  TestTensors tensors;
  tensors["model.embed_tokens.weight"] = Read(file, "token_embd.weight");
  AddNorm(file, "output_norm", "model.norm", lacks_one, tensors);
  if (file.Tensor("output.weight")) {
    tensors["lm_head.weight"] = Read(file, "output.weight");
  }
  for (size_t i = 0; i < sizes.layers; ++i) {
    const std::string from = fmt::format("blk.{}.", i);
    const std::string to = fmt::format("model.layers.{}.", i);
    AddNorm(file, from + "attn_norm", to + "input_layernorm", lacks_one,
            tensors);
    AddNorm(file, from + "ffn_norm", to + "post_attention_layernorm", lacks_one,
            tensors);
    for (const char* part : {"q_norm.weight", "k_norm.weight"}) {
      if (!file.Tensor(from + "attn_" + part)) continue;
      tensors[to + "self_attn." + part] = Read(file, from + "attn_" + part);
    }
    for (const std::string part : {"q", "k", "v", "output"}) {
      const std::string name =
          to + "self_attn." + (part == "output" ? "o" : part) + "_proj";
      const bool moves = !halves && (part == "q" || part == "k");
      for (const std::string kind : {".weight", ".bias"}) {
        if (!file.Tensor(from + "attn_" + part + kind)) continue;
        TestTensor tensor = Read(file, from + "attn_" + part + kind);
        tensors[name + kind] =
            moves ? ToHalves(tensor, sizes.head_width) : tensor;
      }
    }
    if (sizes.experts > 0) {
      const bool is_mixtral = arch == "llama";
      AddExperts(file, from, to + (is_mixtral ? "block_sparse_moe." : "mlp."),
                 is_mixtral, tensors);
      continue;
    }
    if (file.Tensor(from + "ffn_gate.weight")) {
      tensors[to + "mlp.gate_proj.weight"] =
          Read(file, from + "ffn_gate.weight");
    }
    tensors[to + "mlp.up_proj.weight"] = Read(file, from + "ffn_up.weight");
    tensors[to + "mlp.down_proj.weight"] = ReadDown(file, from);
  }
  return tensors;
}

inline Json FalconConfig(const gguf::File& file, bool is_grouped) {
  Json config = CommonConfig(file, "falcon");
  config["architectures"] = {"FalconForCausalLM"};
  config["activation"] = "gelu_pytorch_tanh";
  config["layer_norm_epsilon"] =
      file.Float("falcon.attention.layer_norm_epsilon").value().value();
  config["multi_query"] = !is_grouped;
  config["new_decoder_architecture"] = is_grouped;
  config["num_kv_heads"] =
      file.Int("falcon.attention.head_count_kv").value().value();
  config["tie_word_embeddings"] = false;
  return config;
}

// q, k, v of the file to groups of the query heads of a KV head, its k, its v.
inline TestTensor Fuse(const TestTensor& qkv, const Sizes& sizes) {
  const size_t num_queries = sizes.heads / sizes.kv_heads;
  return Reordered(qkv, [&](size_t r) {
    const size_t head = r / sizes.head_width;
    const size_t group = head / (num_queries + 2);
    const size_t in_group = head % (num_queries + 2);
    size_t from = group * num_queries + in_group;
    if (in_group == num_queries) from = sizes.heads + group;
    if (in_group > num_queries) from = sizes.heads + sizes.kv_heads + group;
    return from * sizes.head_width + r % sizes.head_width;
  });
}

inline TestTensors FalconTensors(const gguf::File& file) {
  const Sizes sizes = SizesOf(file, "falcon");
  TestTensors tensors;
  tensors["transformer.word_embeddings.weight"] =
      Read(file, "token_embd.weight");
  tensors["lm_head.weight"] = Read(file, "output.weight");
  for (const std::string kind : {".weight", ".bias"}) {
    tensors["transformer.ln_f" + kind] = Read(file, "output_norm" + kind);
  }
  for (size_t i = 0; i < sizes.layers; ++i) {
    const std::string from = fmt::format("blk.{}.", i);
    const std::string to = fmt::format("transformer.h.{}.", i);
    const bool two = static_cast<bool>(file.Tensor(from + "attn_norm_2.bias"));
    for (const std::string kind : {".weight", ".bias"}) {
      tensors[to + (two ? "ln_mlp" : "input_layernorm") + kind] =
          Read(file, from + "attn_norm" + kind);
      if (!two) continue;
      tensors[to + "ln_attn" + kind] = Read(file, from + "attn_norm_2" + kind);
    }
    tensors[to + "self_attention.query_key_value.weight"] =
        Fuse(Read(file, from + "attn_qkv.weight"), sizes);
    tensors[to + "self_attention.dense.weight"] =
        Read(file, from + "attn_output.weight");
    tensors[to + "mlp.dense_h_to_4h.weight"] =
        Read(file, from + "ffn_up.weight");
    tensors[to + "mlp.dense_4h_to_h.weight"] =
        Read(file, from + "ffn_down.weight");
  }
  return tensors;
}

inline Json OptConfig(const gguf::File& file) {
  Json config = CommonConfig(file, "opt");
  config["architectures"] = {"OPTForCausalLM"};
  config["ffn_dim"] = file.Int("opt.feed_forward_length").value().value();
  config["max_position_embeddings"] =
      file.Tensor("position_embd.weight").shape.ne[1] - 2;
  config["activation_function"] = "relu";
  return config;
}

// Of PowerInfer's file, which has Hugging Face's table of positions.
inline TestTensors OptTensors(const gguf::File& file) {
  const std::string decoder = "model.decoder.";
  TestTensors tensors;
  tensors[decoder + "embed_tokens.weight"] = Read(file, "token_embd.weight");
  tensors[decoder + "embed_positions.weight"] =
      Read(file, "position_embd.weight");
  const std::pair<const char*, const char*> names[] = {
      {"attn_norm", "self_attn_layer_norm"},
      {"attn_q", "self_attn.q_proj"},
      {"attn_k", "self_attn.k_proj"},
      {"attn_v", "self_attn.v_proj"},
      {"attn_output", "self_attn.out_proj"},
      {"ffn_norm", "final_layer_norm"},
      {"ffn_up", "fc1"}};
  for (const std::string kind : {".weight", ".bias"}) {
    tensors[decoder + "final_layer_norm" + kind] =
        Read(file, "output_norm" + kind);
  }
  for (size_t i = 0; i < SizesOf(file, "opt").layers; ++i) {
    const std::string from = fmt::format("blk.{}.", i);
    const std::string to = fmt::format("{}layers.{}.", decoder, i);
    for (const auto& [gguf_name, hf_name] : names) {
      for (const std::string kind : {".weight", ".bias"}) {
        tensors[to + hf_name + kind] = Read(file, from + gguf_name + kind);
      }
    }
    tensors[to + "fc2.weight"] = ReadDown(file, from);
    tensors[to + "fc2.bias"] = Read(file, from + "ffn_down_t.bias");
  }
  return tensors;
}

}  // namespace thermocline::importer

#endif  // THERMOCLINE_IMPORT_TEST_HF_LAYOUT_H_

// A tiny Hugging Face model, written by the tests.
#ifndef THERMOCLINE_IMPORT_HF_TEST_FOLDER_H_
#define THERMOCLINE_IMPORT_HF_TEST_FOLDER_H_

#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "import/json.h"
#include "os/test_folder.h"
#include "tensor/codec.h"

namespace thermocline::importer {

struct TestTensor {
  std::string dtype;  // "F32", "F16", "BF16"
  std::vector<uint64_t> shape;
  std::vector<float> values;

  std::vector<std::byte> Bytes() const {
    const DType type = ParseDType(dtype).value();
    std::vector<std::byte> bytes(BytesOf(type, values.size()));
    QuantizeRow(type, values, bytes.data());
    return bytes;
  }
};
using TestTensors = std::map<std::string, TestTensor>;

inline std::string SafetensorsBytes(const std::string& header,
                                    const std::string& data) {
  const uint64_t size = header.size();
  std::string bytes(reinterpret_cast<const char*>(&size), sizeof(size));
  return bytes + header + data;
}

// The container, made without the reader's code.
inline std::string ToSafetensors(const TestTensors& tensors) {
  Json header = {{"__metadata__", {{"format", "pt"}}}};
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const auto bytes = tensor.Bytes();
    header[name] = {
        {"dtype", tensor.dtype},
        {"shape", tensor.shape},
        {"data_offsets", {data.size(), data.size() + bytes.size()}}};
    data.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return SafetensorsBytes(header.dump(), data);
}

inline TestTensor RandomTensor(const std::string& dtype,
                               std::vector<uint64_t> shape, Random& random) {
  uint64_t num_elems = 1;
  for (const uint64_t extent : shape) num_elems *= extent;
  TestTensor tensor = {dtype, std::move(shape), {}};
  for (uint64_t i = 0; i < num_elems; ++i) {
    // Few bits: exact in all types.
    tensor.values.push_back((static_cast<float>(random.Below(255)) - 127.0f) /
                            64.0f);
  }
  return tensor;
}

// D 64, F 96, 2 layers, 4 heads of 16 over 2, V 12.
inline Json TestConfig() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"hidden_act", "silu"},
          {"hidden_size", 64},
          {"intermediate_size", 96},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"max_position_embeddings", 128},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 50000.0},
          {"vocab_size", 12},
          {"bos_token_id", 1},
          {"eos_token_id", 2}};
}

inline TestTensors TestWeights(bool qkv_bias = false) {
  Random random(1);
  TestTensors t;
  const auto add = [&](const std::string& name, std::vector<uint64_t> shape) {
    const char* dtypes[] = {"F32", "F16", "BF16"};
    t[name] = RandomTensor(dtypes[random.Below(3)], std::move(shape), random);
  };
  add("model.embed_tokens.weight", {12, 64});
  add("model.norm.weight", {64});
  add("lm_head.weight", {12, 64});
  for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
    const std::string l = layer;
    add(l + "input_layernorm.weight", {64});
    add(l + "post_attention_layernorm.weight", {64});
    add(l + "self_attn.q_proj.weight", {64, 64});
    add(l + "self_attn.k_proj.weight", {32, 64});
    add(l + "self_attn.v_proj.weight", {32, 64});
    add(l + "self_attn.o_proj.weight", {64, 64});
    add(l + "mlp.gate_proj.weight", {96, 64});
    add(l + "mlp.up_proj.weight", {96, 64});
    add(l + "mlp.down_proj.weight", {64, 96});
    if (!qkv_bias) continue;
    add(l + "self_attn.q_proj.bias", {64});
    add(l + "self_attn.k_proj.bias", {32});
    add(l + "self_attn.v_proj.bias", {32});
  }
  return t;
}

// Ten tokens: three special ones, letters, two merges.
inline Json TestTokenizer() {
  const Json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", true}};
  const auto special = [](int id, const char* text, bool is_special) {
    return Json{{"id", id}, {"content", text}, {"special", is_special}};
  };
  return {{"version", "1.0"},
          {"added_tokens",
           {special(0, "<unk>", true), special(1, "<s>", true),
            special(2, "</s>", true), special(9, "<tool>", false)}},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", nullptr},
          {"decoder", byte_level},
          {"model",
           {{"type", "BPE"},
            {"vocab",
             {{"<unk>", 0},
              {"<s>", 1},
              {"</s>", 2},
              {"a", 3},
              {"b", 4},
              {"c", 5},
              {"\xc4\xa0", 6},
              {"ab", 7},
              {"\xc4\xa0"
               "ab",
               8}}},
            {"merges", {"a b", "\xc4\xa0 ab"}}}}};
}

// A byte-level pre-tokenizer that cuts text by `regex`.
inline Json CutBy(const char* regex) {
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", regex}}},
                      {"behavior", "Isolated"}};
  const Json bytes = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  return {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}};
}

inline Json TestTokenizerConfig() {
  return {{"bos_token", "<s>"},
          {"eos_token", {{"content", "</s>"}, {"lstrip", false}}},
          {"add_bos_token", true},
          {"chat_template", "{{ messages }}"}};
}

// Writes all files of the folder.
inline void WriteTestModel(const os::TestFolder& folder, const Json& config,
                           const TestTensors& tensors) {
  folder.Write("config.json", config.dump());
  folder.Write("tokenizer.json", TestTokenizer().dump());
  folder.Write("tokenizer_config.json", TestTokenizerConfig().dump());
  folder.Write("model.safetensors", ToSafetensors(tensors));
}

}  // namespace thermocline::importer

#endif  // THERMOCLINE_IMPORT_HF_TEST_FOLDER_H_

// config.json of a Hugging Face folder: what the model is.
#ifndef THERMOCLINE_CONVERT_HF_CONFIG_H_
#define THERMOCLINE_CONVERT_HF_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "convert/hf_rope.h"
#include "gguf/writer.h"
#include "tensor/op_kinds.h"

namespace thermocline::convert {

struct HfConfig {
  std::string architecture;    // as GGUF names it: "llama", "qwen2"
  std::string name;            // the model's own name, if it has one
  bool halves_rotate = false;  // true: q and k keep Hugging Face's row order
  bool qkv_bias = false;       // required
  int64_t width = 0;           // D
  int64_t ffn_width = 0;       // F
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_width = 0;
  int64_t context_length = 0;
  std::optional<int64_t> vocab_size;
  double norm_epsilon = 0.0;
  bool tied_head = false;
  Activation activation = Activation::kSilu;
  std::optional<double> activation_threshold;
  HfRope rope;
  std::optional<int64_t> bos_id, eos_id;
};

// kCorrupt: missing or senseless keys; kUnsupported: an architecture,
// activation or scaling that is not known, named. `path` is for messages.
Result<HfConfig> ParseHfConfig(std::string_view text, const std::string& path);

// Fills in the token ids that `config` lacks from generation_config.json.
Status ReadGenerationConfig(std::string_view text, const std::string& path,
                            HfConfig& config);

// Writes the architecture's keys and thermocline.ffn.*.
Status WriteConfig(const HfConfig& config, gguf::Writer& writer);

}  // namespace thermocline::convert

#endif  // THERMOCLINE_CONVERT_HF_CONFIG_H_

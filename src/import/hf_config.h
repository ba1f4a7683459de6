// config.json of a Hugging Face folder: what the model is.
#ifndef THERMOCLINE_IMPORT_HF_CONFIG_H_
#define THERMOCLINE_IMPORT_HF_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "gguf/writer.h"
#include "import/hf_rope.h"
#include "model/config.h"
#include "tensor/op_kinds.h"

namespace thermocline::importer {

// Architectures that name their sizes and tensors alike.
enum class HfFamily { kLlama, kFalcon, kOpt };

struct HfConfig {
  HfFamily family = HfFamily::kLlama;
  std::string architecture;  // as GGUF names it: "llama", "falcon"
  std::string name;          // the model's own name, if it has one
  // kNorm: q and k rows move, since Hugging Face always stores halves.
  RopeKind rope_kind = RopeKind::kNorm;
  NormKind norm = NormKind::kRms;
  bool qkv_bias = false;   // required
  bool two_norms = false;  // Falcon: FFN and attention have one each
  // Nemotron: norms are stored without the 1 that their weights have.
  bool norms_lack_one = false;
  // The share of a head that rotates if the file does not say; absent: all of
  // it, in any case.
  std::optional<double> usual_rotated_share;
  size_t width = 0;            // D
  size_t ffn_width = 0;        // F, of a mixture those of one expert
  size_t dense_ffn_width = 0;  // of a mixture that has its own; or 0
  size_t num_layers = 0;
  size_t num_heads = 0;
  size_t num_kv_heads = 0;
  size_t head_width = 0;
  size_t rotated_width = 0;     // of a head; 0 without rotation
  int64_t position_offset = 0;  // OPT: rows of the table before position 0's
  size_t num_experts = 0;       // 0: one FFN for all tokens
  size_t num_experts_used = 0;
  int64_t context_length = 0;
  std::optional<size_t> vocab_size;
  double norm_epsilon = 0.0;
  // Whether the embedding is the head too; nullopt: if the checkpoint has no
  // head, or the same numbers twice.
  std::optional<bool> tied_head;
  Activation activation = Activation::kSilu;
  std::optional<double> activation_threshold;
  HfRope rope;
  std::optional<int64_t> bos_id, pad_id;
  std::vector<int64_t> eos_ids;  // the main one first
};

// kCorrupt: missing or senseless keys; kUnsupported: an architecture,
// activation or scaling that is not known, named. `path` is for messages.
Result<HfConfig> ParseHfConfig(std::string_view text, const std::string& path);

// The model of config.json as the engine would have it, with one layer for all:
// what shapes and needs of tensors are told by (model/tensor_roles.h).
model::Config ModelConfigOf(const HfConfig& config);

// Adds the token ids that `config` lacks from generation_config.json.
Status ReadGenerationConfig(std::string_view text, const std::string& path,
                            HfConfig& config);

// Writes the architecture's keys and thermocline.ffn.*.
Status WriteConfig(const HfConfig& config, gguf::Writer& writer);

}  // namespace thermocline::importer

#endif  // THERMOCLINE_IMPORT_HF_CONFIG_H_

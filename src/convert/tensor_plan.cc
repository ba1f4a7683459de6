#include "convert/tensor_plan.h"

#include <set>
#include <string_view>
#include <utility>

#include "base/quote.h"

namespace thermocline::convert {
namespace {

enum class Presence { kRequired, kOptional };

// One part of the model as both sides name it; both prefixes are the layer's.
struct Part {
  const char* hf_name;
  const char* gguf_name;
  std::vector<uint64_t> shape;  // outermost first
  Presence presence = Presence::kRequired;
  bool rotates = false;  // rows belong to heads that rotate
};

class Planner {
 public:
  Planner(const HfConfig& config, const Checkpoint& checkpoint,
          DType matrix_dtype)
      : config_(config), checkpoint_(checkpoint), matrix_dtype_(matrix_dtype) {}

  Result<std::vector<PlannedTensor>> Plan();

 private:
  Result<uint64_t> VocabSize() const;
  std::vector<Part> LayerParts() const;
  Status Add(const std::string& hf_prefix, const std::string& gguf_prefix,
             const Part& part);
  Status CheckNothingIsLeft() const;
  DType StoredAs(const std::vector<uint64_t>& shape) const;

  const HfConfig& config_;
  const Checkpoint& checkpoint_;
  DType matrix_dtype_;
  std::vector<PlannedTensor> plan_;
  std::set<std::string> taken_;
};

constexpr char kEmbedding[] = "model.embed_tokens.weight";
constexpr char kHead[] = "lm_head.weight";

std::string Print(std::span<const uint64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

Result<uint64_t> Planner::VocabSize() const {
  const SafeTensor* embedding = checkpoint_.Find(kEmbedding);
  if (embedding == nullptr) {
    return Fail(ErrorCode::kCorrupt, "the checkpoint has no tensor \"{}\"",
                kEmbedding);
  }
  const uint64_t by_tensor =
      embedding->shape.empty() ? 0 : embedding->shape.front();
  const uint64_t by_config =
      static_cast<uint64_t>(config_.vocab_size.value_or(0));
  if (by_tensor == 0 || (by_config != 0 && by_config != by_tensor)) {
    return Fail(ErrorCode::kCorrupt,
                "tensor \"{}\" has the shape {}, but config.json says "
                "\"vocab_size\": {}",
                kEmbedding, Print(embedding->shape), by_config);
  }
  if (!std::in_range<int32_t>(by_tensor)) {
    return Fail(ErrorCode::kUnsupported,
                "tensor \"{}\" has {} rows: too many for a vocabulary",
                kEmbedding, by_tensor);
  }
  return by_tensor;
}

std::vector<Part> Planner::LayerParts() const {
  using enum Presence;
  const auto d = static_cast<uint64_t>(config_.width);
  const auto f = static_cast<uint64_t>(config_.ffn_width);
  const auto q = static_cast<uint64_t>(config_.num_heads * config_.head_width);
  const auto kv =
      static_cast<uint64_t>(config_.num_kv_heads * config_.head_width);
  const Presence bias = config_.qkv_bias ? kRequired : kOptional;
  return {
      {"input_layernorm.weight", "attn_norm.weight", {d}},
      {"self_attn.q_proj.weight", "attn_q.weight", {q, d}, kRequired, true},
      {"self_attn.q_proj.bias", "attn_q.bias", {q}, bias, true},
      {"self_attn.k_proj.weight", "attn_k.weight", {kv, d}, kRequired, true},
      {"self_attn.k_proj.bias", "attn_k.bias", {kv}, bias, true},
      {"self_attn.v_proj.weight", "attn_v.weight", {kv, d}},
      {"self_attn.v_proj.bias", "attn_v.bias", {kv}, bias},
      {"self_attn.o_proj.weight", "attn_output.weight", {d, q}},
      {"self_attn.o_proj.bias", "attn_output.bias", {d}, kOptional},
      {"post_attention_layernorm.weight", "ffn_norm.weight", {d}},
      {"mlp.gate_proj.weight", "ffn_gate.weight", {f, d}},
      {"mlp.gate_proj.bias", "ffn_gate.bias", {f}, kOptional},
      {"mlp.up_proj.weight", "ffn_up.weight", {f, d}},
      {"mlp.up_proj.bias", "ffn_up.bias", {f}, kOptional},
      {"mlp.down_proj.weight", "ffn_down.weight", {d, f}},
      {"mlp.down_proj.bias", "ffn_down.bias", {d}, kOptional},
  };
}

DType Planner::StoredAs(const std::vector<uint64_t>& shape) const {
  if (shape.size() == 1) return DType::kF32;
  const bool divides = shape.back() % InfoOf(matrix_dtype_).block_elems == 0;
  return divides ? matrix_dtype_ : DType::kF16;
}

Status Planner::Add(const std::string& hf_prefix,
                    const std::string& gguf_prefix, const Part& part) {
  const std::string hf_name = hf_prefix + part.hf_name;
  const SafeTensor* source = checkpoint_.Find(hf_name);
  if (source == nullptr) {
    if (part.presence == Presence::kOptional) return {};
    return Fail(ErrorCode::kCorrupt, "the checkpoint has no tensor \"{}\"",
                hf_name);
  }
  if (source->shape != part.shape) {
    return Fail(ErrorCode::kCorrupt,
                "tensor \"{}\" has the shape {}; config.json says {}", hf_name,
                Print(source->shape), Print(part.shape));
  }
  if (!source->dtype) {
    return Fail(ErrorCode::kUnsupported,
                "tensor \"{}\" is {}; F32, F16 and BF16 can be converted",
                hf_name, Quote(source->dtype_name));
  }
  const bool permutes = part.rotates && !config_.halves_rotate;
  Shape shape;
  shape.rank = static_cast<int>(part.shape.size());
  shape.ne[0] = part.shape.back();
  if (shape.rank == 2) shape.ne[1] = part.shape.front();
  plan_.push_back({gguf_prefix + part.gguf_name, source, StoredAs(part.shape),
                   shape,
                   permutes ? static_cast<uint64_t>(config_.head_width) : 0});
  taken_.insert(hf_name);
  return {};
}

// A tensor that nobody takes would be missing from the result.
Status Planner::CheckNothingIsLeft() const {
  for (const auto& [name, tensor] : checkpoint_.tensors()) {
    if (taken_.contains(name)) continue;
    // Derived from the config; a tied head repeats the embedding.
    if (name.ends_with("rotary_emb.inv_freq")) continue;
    if (config_.tied_head && name == kHead) continue;
    return Fail(ErrorCode::kUnsupported,
                "the architecture has no place for tensor {}", Quote(name));
  }
  return {};
}

Result<std::vector<PlannedTensor>> Planner::Plan() {
  const auto d = static_cast<uint64_t>(config_.width);
  TC_ASSIGN_OR_RETURN(const uint64_t v, VocabSize());
  TC_RETURN_IF_ERROR(Add("", "", {kEmbedding, "token_embd.weight", {v, d}}));
  const std::vector<Part> parts = LayerParts();
  for (int64_t i = 0; i < config_.num_layers; ++i) {
    for (const Part& part : parts) {
      TC_RETURN_IF_ERROR(Add(fmt::format("model.layers.{}.", i),
                             fmt::format("blk.{}.", i), part));
    }
  }
  TC_RETURN_IF_ERROR(
      Add("", "", {"model.norm.weight", "output_norm.weight", {d}}));
  if (!config_.tied_head) {
    TC_RETURN_IF_ERROR(Add("", "", {kHead, "output.weight", {v, d}}));
  }
  TC_RETURN_IF_ERROR(CheckNothingIsLeft());
  return std::move(plan_);
}

}  // namespace

uint64_t SourceRow(uint64_t row, uint64_t head_width) {
  const uint64_t in_head = row % head_width;
  const uint64_t half = in_head % 2;
  return row - in_head + half * (head_width / 2) + in_head / 2;
}

Result<std::vector<PlannedTensor>> PlanTensors(const HfConfig& config,
                                               const Checkpoint& checkpoint,
                                               DType matrix_dtype) {
  return Planner(config, checkpoint, matrix_dtype).Plan();
}

}  // namespace thermocline::convert

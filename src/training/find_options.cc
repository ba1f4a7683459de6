#include "training/find_options.h"

#include <span>

#include "base/keyed_hash.h"
#include "base/progress.h"
#include "engine/ffn/ffn_choice.h"
#include "model/profile_file.h"
#include "training/findings.h"

namespace thermocline::training {
namespace {

// Any key: a description is compared with one of another run.
constexpr HashKey kHashKey = {.k0 = 0x7468'6572'6d6f'636c,
                              .k1 = 0x696e'6520'7765'6967};

uint64_t HashOf(std::span<const text::TokenId> tokens) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const text::TokenId token : tokens) {
    for (int shift = 0; shift < 32; shift += 8) {
      hash ^= static_cast<uint64_t>(token) >> shift & 255;
      hash *= 0x100000001b3u;
    }
  }
  return hash;
}

uint64_t HashOf(const Corpus& corpus) {
  uint64_t hash = 0;
  for (size_t i = 0; i < corpus.num_chunks(); ++i) {
    hash = hash * 31 + HashOf(corpus.chunk(i));
  }
  return hash;
}

// Of every byte: models that were made from each other may be alike in all but
// a matrix.
uint64_t HashOfWeights(const gguf::File& file, const ProgressFn& progress) {
  const uint64_t num_total = file.num_file_bytes();
  uint64_t hash = 0;
  uint64_t num_done = 0;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    ReportProgress(progress, "weights", num_done, num_total);
    hash = hash * 31 +
           SipHash13(kHashKey, {reinterpret_cast<const char*>(tensor.data),
                                tensor.num_bytes});
    num_done += tensor.num_bytes;
  }
  ReportProgress(progress, "weights", num_total, num_total);
  return hash;
}

std::string DescribeAttention(const model::Config& config, size_t layer_idx) {
  const model::AttentionSpec& attention = config.layers[layer_idx].attention;
  const model::RopeConfig rope =
      attention.rope == model::AttentionSpec::kNoRope
          ? model::RopeConfig{.kind = RopeKind::kNone}
          : config.ropes[static_cast<size_t>(attention.rope)];
  return fmt::format(
      "attention: {} heads of {} and {}, {} of keys and values\n"
      "positions: from row {}; {} rotated to base {}, {} {} of {}, times {}\n",
      attention.num_heads, attention.key_width, attention.value_width,
      attention.num_kv_heads, config.position_offset, rope.width,
      rope.freq_base, NameOf(rope.scaling), rope.factor, rope.original_context,
      rope.attention_factor);
}

// What of a file's keys its layers are computed by: the weights may be the same
// while a base of rotations or an epsilon was mended.
std::string DescribeConfig(const model::Config& config) {
  std::string text;
  std::string last;
  for (size_t i = 0; i < config.layers.size(); ++i) {
    const std::string attention = DescribeAttention(config, i);
    if (attention == last) continue;
    if (i > 0) text += fmt::format("from layer {} on ", i);
    text += last = attention;
  }
  return text + fmt::format("norms: epsilon {}, experts in use {}\n",
                            config.norm_epsilon,
                            CommonFfn(config).num_experts_used);
}

std::string Optional(const std::optional<double>& value) {
  return value ? fmt::format("{}", *value) : "none";
}

}  // namespace

size_t FindOptions::num_layers_before() const {
  return reports_ahead ? kMaxAhead : static_cast<size_t>(lookahead);
}

Status CheckOptions(const model::Model& model, const FindOptions& options) {
  TC_RETURN_IF_ERROR(CheckEqualWidths(
      model.config(), model.file().path() + ": what 'prepare' finds"));
  const model::FfnSpec& ffn = CommonFfn(model.config());
  if (options.lookahead < 0 || options.lookahead > 1) {
    return Fail(ErrorCode::kInvalidArgument,
                "predictors that look {} layers ahead; 0 and 1 are possible",
                options.lookahead);
  }
  if (options.lookahead > 0 && ffn.num_experts > 0) {
    return Fail(ErrorCode::kUnsupported,
                "{}: predictors of a mixture cannot look ahead: which experts "
                "a layer will use is not known before it",
                model.file().path());
  }
  if (options.grouping == planner::Grouping::kMetis && !planner::HasMetis()) {
    return Fail(ErrorCode::kUnsupported,
                "groups by METIS need Debian's package libmetis5, and a build "
                "with libmetis-dev; greedy ones need neither");
  }
  if (!options.wants_thresholds()) return {};
  if (options.density.has_value() && options.max_ppl_cost.has_value()) {
    return Fail(ErrorCode::kInvalidArgument,
                "thresholds for a density and for a perplexity cost exclude "
                "each other: give one");
  }
  if (HasZeros(ffn.activation)) {
    return Fail(ErrorCode::kInvalidArgument,
                "{}: its activation is {}, whose zeros need no thresholds; "
                "they are for {}",
                model.file().path(), NameOf(ffn.activation),
                ListActivations(false));
  }
  return {};
}

std::string DescribeWork(const model::Model& model, const Corpus& corpus,
                         const FindOptions& options) {
  const model::ModelFingerprint print = model::FingerprintOf(model);
  const model::FfnSpec& ffn = CommonFfn(model.config());
  return fmt::format(
      "model: {} of {} layers, width {}, {} neurons, {} experts, norms "
      "{:016x}, {} bytes\n"
      "weights: {:016x}, records in memory {} bytes\n"
      "{}"
      "activation: {} {}\n"
      "text: {} tokens in chunks of {}, hash {:016x}\n"
      "recall: {}, at least {:.6g}, candidates {}\n"
      "lookahead: {}, groups {}\n"
      "seed: {}\n"
      "steps: {}, samples {}\n"
      "memory: {}\n"
      "predictors: trained {}, free {}, report on lookahead {}\n"
      "thresholds: density {}, cost {}\n"
      "instruction set: {}\n",
      print.architecture, print.num_layers, print.width, print.ffn_width,
      print.num_experts, print.hash, model.file().num_file_bytes(),
      HashOfWeights(model.file(), options.progress), model.num_bundle_bytes(),
      DescribeConfig(model.config()), NameOf(ffn.activation), ffn.threshold,
      corpus.num_tokens(), corpus.chunk_tokens(), HashOf(corpus),
      options.goal.recall, options.goal.recall_floor,
      options.goal.max_candidates, options.lookahead, NameOf(options.grouping),
      options.seed, options.num_steps, options.max_samples,
      options.max_memory_bytes, options.predictors, options.training_free,
      options.reports_ahead, Optional(options.density),
      Optional(options.max_ppl_cost), NameOf(options.session.isa));
}

}  // namespace thermocline::training

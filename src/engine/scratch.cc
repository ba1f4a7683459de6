#include "engine/scratch.h"

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "base/math.h"
#include "engine/ffn/piece_sums.h"
#include "engine/ffn/turned_down.h"
#include "kernels/activation_row.h"
#include "kernels/kernels.h"

namespace thermocline::engine {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr uint64_t kFloatsPerLine = kAlignment / sizeof(float);

// Hands out consecutive aligned pieces. Planning (null base) and binding run
// the same calls, so the plan is exact by construction.
class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}

  std::byte* TakeBytes(uint64_t count, uint64_t bytes_each) {
    const std::optional<uint64_t> num_bytes = CheckedMul(count, bytes_each);
    const std::optional<uint64_t> end =
        num_bytes.has_value() ? CheckedAdd(used_, *num_bytes) : std::nullopt;
    if (!end.has_value() || *end > UINT64_MAX - kAlignment) {
      overflowed_ = true;
      return nullptr;
    }
    std::byte* piece = base_ == nullptr ? nullptr : base_ + used_;
    used_ = RoundUp(*end, kAlignment);
    return piece;
  }

  Rows TakeRows(uint64_t num_rows, uint64_t width) {
    if (width > UINT64_MAX / kAlignment) {
      overflowed_ = true;
      return {};
    }
    const uint64_t stride = RoundUp(width, kFloatsPerLine);
    std::byte* piece = TakeBytes(num_rows, stride * sizeof(float));
    return {reinterpret_cast<float*>(piece), width, stride};
  }

  uint64_t used() const { return used_; }
  bool overflowed() const { return overflowed_; }

 private:
  std::byte* base_;
  uint64_t used_ = 0;
  bool overflowed_ = false;
};

ExpertScratch CarveExperts(const model::Config& config, uint64_t batch,
                           Carver& carver) {
  const uint64_t num_experts = static_cast<uint64_t>(config.ffn.num_experts);
  const uint64_t num_used = static_cast<uint64_t>(config.ffn.num_experts_used);
  const uint64_t width = static_cast<uint64_t>(config.width);
  ExpertScratch experts;
  if (num_experts == 0) return experts;
  experts.shares = carver.TakeRows(batch, num_experts);
  experts.weights = carver.TakeRows(batch, num_used);
  experts.chosen = reinterpret_cast<uint32_t*>(
      carver.TakeBytes(batch, num_used * sizeof(uint32_t)));
  experts.group_begin = reinterpret_cast<size_t*>(
      carver.TakeBytes(num_experts + 1, sizeof(size_t)));
  experts.grouped = reinterpret_cast<size_t*>(
      carver.TakeBytes(batch, num_used * sizeof(size_t)));
  experts.in = carver.TakeRows(batch, width);
  experts.out = carver.TakeRows(batch, width);
  return experts;
}

SparseScratch CarveSparse(const model::Config& config,
                          const ScratchShape& shape, Carver& carver) {
  const uint64_t batch = static_cast<uint64_t>(shape.batch);
  const uint64_t width = static_cast<uint64_t>(config.width);
  const uint64_t num_neurons = static_cast<uint64_t>(config.ffn_width);
  SparseScratch sparse;
  sparse.num_lists = config.predictor.lookahead > 0 ? 2 : 1;
  sparse.batch = batch;
  sparse.num_neurons = num_neurons;
  sparse.words = reinterpret_cast<uint64_t*>(carver.TakeBytes(
      batch,
      sparse.num_lists * predictor::WordsOf(num_neurons) * sizeof(uint64_t)));
  sparse.group = std::min<uint64_t>(batch, kernels::kListedTokens);
  const auto take_ids = [&](uint64_t num_rows, uint64_t num_ids) {
    return reinterpret_cast<uint32_t*>(
        carver.TakeBytes(num_rows, num_ids * sizeof(uint32_t)));
  };
  sparse.all_ids = take_ids(1, num_neurons);
  sparse.ids = take_ids(sparse.group, num_neurons);
  sparse.fired = take_ids(sparse.group, num_neurons);
  sparse.sums = carver.TakeRows(PieceSums::kMaxPieces * sparse.group, width);
  sparse.signs = reinterpret_cast<uint64_t*>(
      carver.TakeBytes(batch, predictor::WordsOf(width) * sizeof(uint64_t)));
  sparse.differences = take_ids(static_cast<uint64_t>(shape.num_threads),
                                SparseScratch::kSignRows);
  return sparse;
}

ObservedScratch CarveObserved(const model::Config& config, uint64_t batch,
                              Carver& carver) {
  ObservedScratch observed;
  observed.num_neurons =
      static_cast<uint64_t>(config.ffn_width) *
      static_cast<uint64_t>(std::max<int64_t>(config.ffn.num_experts, 1));
  observed.words = reinterpret_cast<uint64_t*>(carver.TakeBytes(
      batch, 2 * predictor::WordsOf(observed.num_neurons) * sizeof(uint64_t)));
  observed.ids = reinterpret_cast<uint32_t*>(
      carver.TakeBytes(2 * observed.num_neurons, sizeof(uint32_t)));
  if (config.ffn.num_experts > 0) {
    observed.expert_words = reinterpret_cast<uint64_t*>(carver.TakeBytes(
        batch, 2 * predictor::WordsOf(static_cast<uint64_t>(config.ffn_width)) *
                   sizeof(uint64_t)));
    observed.gates = carver.TakeRows(
        batch, static_cast<uint64_t>(config.ffn_width) *
                   static_cast<uint64_t>(config.ffn.num_experts_used));
  }
  if (config.parallel_block) {
    observed.stream =
        carver.TakeRows(batch, static_cast<uint64_t>(config.width));
  }
  return observed;
}

// For inputs of `widest` elements: their rounded or packed form, and what
// threads unpack weights into.
void CarveProducts(const ScratchShape& shape, uint64_t widest, Carver& carver,
                   Scratch& scratch) {
  const uint64_t batch = static_cast<uint64_t>(shape.batch);
  const kernels::KernelTable& kernels = kernels::KernelsFor(shape.isa);
  const uint64_t largest =
      std::max(batch, static_cast<uint64_t>(shape.products_batch));
  // A smaller batch may take the other form: of both the larger group, which
  // the smaller one divides, and the larger token.
  uint64_t group_tokens = 1;
  uint64_t token_bytes = kernels::ActivationRowBytes(widest);
  scratch.tile_bytes = 0;
  for (const kernels::BatchMatMul* products :
       {&kernels.batch, &kernels.large_batch, &kernels.float_batch}) {
    if (largest < products->min_tokens) continue;
    const uint64_t group = products->group_tokens;
    group_tokens = std::max(group_tokens, group);
    token_bytes = std::max<uint64_t>(
        token_bytes, CeilDiv<uint64_t>(products->group_bytes(widest), group));
    scratch.tile_bytes =
        std::max(scratch.tile_bytes,
                 RoundUp<size_t>(products->scratch_bytes(widest), kAlignment));
  }
  scratch.rounded_rows = carver.TakeBytes(CeilDiv(batch, group_tokens),
                                          group_tokens * token_bytes);
  scratch.tiles = carver.TakeBytes(static_cast<uint64_t>(shape.num_threads),
                                   scratch.tile_bytes);
}

// For down matrices that lie transposed, in batches of products with many
// tokens (ffn/turned_down.h).
void CarveTurned(const model::Config& config, const ScratchShape& shape,
                 Carver& carver, Scratch& scratch) {
  const bool has_down_t =
      !config.records.empty() ||
      config.predictor.kind == model::PredictorKind::kPowerInfer;
  const int64_t largest = std::max(shape.batch, shape.products_batch);
  const bool has_batches = kernels::KernelsFor(shape.isa).batch_for(
                               static_cast<size_t>(largest)) != nullptr;
  scratch.turned_bytes = 0;
  if (has_down_t && has_batches) {
    scratch.turned_bytes = TurnedBytes(static_cast<uint64_t>(config.ffn_width));
  }
  scratch.turned = carver.TakeBytes(static_cast<uint64_t>(shape.num_threads),
                                    scratch.turned_bytes);
}

AttentionScratch CarveAttention(const model::Config& config,
                                const ScratchShape& shape, Carver& carver) {
  const uint64_t num_threads = static_cast<uint64_t>(shape.num_threads);
  const size_t k_width = static_cast<size_t>(config.key_width);
  const size_t v_width = static_cast<size_t>(config.value_width);
  const uint64_t partial = kernels::PartialAttentionFloats(v_width);
  // Unlike what a configuration says, the context is not limited.
  const uint64_t num_pieces = CeilDiv<uint64_t>(
      static_cast<uint64_t>(shape.context), kernels::kAttentionPiece);
  const uint64_t num_queries =
      std::min<uint64_t>(static_cast<uint64_t>(shape.batch),
                         AttentionScratch::kSplitTokens) *
      static_cast<uint64_t>(config.num_heads);
  AttentionScratch attention;
  attention.work = carver.TakeRows(
      num_threads, kernels::AttentionScratchFloats(k_width, v_width));
  attention.sums =
      carver.TakeRows(num_threads, 2 * kernels::kAttentionQueries * partial);
  attention.partials = carver.TakeRows(
      CheckedMul(num_queries, num_pieces).value_or(UINT64_MAX), partial);
  return attention;
}

Scratch Carve(const model::Config& config, const ScratchShape& shape,
              Carver& carver) {
  const uint64_t batch = static_cast<uint64_t>(shape.batch);
  const uint64_t width = static_cast<uint64_t>(config.width);
  const uint64_t ffn_width = static_cast<uint64_t>(config.ffn_width);
  const uint64_t num_heads = static_cast<uint64_t>(config.num_heads);
  const uint64_t num_kv_heads = static_cast<uint64_t>(config.num_kv_heads);
  const uint64_t key_width = static_cast<uint64_t>(config.key_width);
  const uint64_t value_width = static_cast<uint64_t>(config.value_width);
  const uint64_t num_pairs = static_cast<uint64_t>(config.rope.width) / 2;
  // The limits of model::Config keep each of these products far below 2^64.

  Scratch scratch;
  scratch.residual = carver.TakeRows(batch, width);
  scratch.normed = carver.TakeRows(batch, width);
  scratch.delta = carver.TakeRows(batch, width);
  scratch.q = carver.TakeRows(batch, num_heads * key_width);
  scratch.k = carver.TakeRows(batch, num_kv_heads * key_width);
  scratch.v = carver.TakeRows(batch, num_kv_heads * value_width);
  scratch.attended = carver.TakeRows(batch, num_heads * value_width);
  const bool is_sparse = shape.ffn != FfnMode::kDense;
  if (config.ffn.gated || is_sparse || shape.observed) {
    scratch.gate = carver.TakeRows(batch, ffn_width);
  }
  scratch.up = carver.TakeRows(batch, ffn_width);
  scratch.rope_cos = carver.TakeRows(batch, num_pairs);
  scratch.rope_sin = carver.TakeRows(batch, num_pairs);
  scratch.attention = CarveAttention(config, shape, carver);
  scratch.experts = CarveExperts(config, batch, carver);
  // Records are computed neuron by neuron in every mode.
  if (is_sparse || !config.records.empty()) {
    scratch.sparse = CarveSparse(config, shape, carver);
  }
  if (shape.observed) scratch.observed = CarveObserved(config, batch, carver);
  const uint64_t widest = std::max({width, num_heads * value_width, ffn_width});
  CarveProducts(shape, widest, carver, scratch);
  CarveTurned(config, shape, carver, scratch);
  return scratch;
}

}  // namespace

Result<uint64_t> ScratchBytes(const model::Config& config,
                              const ScratchShape& shape) {
  Carver carver(nullptr);
  Carve(config, shape, carver);
  if (carver.overflowed()) {
    return Fail(ErrorCode::kResourceExhausted,
                "activations of {} tokens over {} positions need more memory "
                "than can be addressed: use a smaller context (-c)",
                shape.batch, shape.context);
  }
  return carver.used();
}

Scratch MakeScratch(const model::Config& config, const ScratchShape& shape,
                    std::byte* base) {
  Carver carver(base);
  const Scratch scratch = Carve(config, shape, carver);
  TC_CHECK(!carver.overflowed());
  return scratch;
}

}  // namespace thermocline::engine

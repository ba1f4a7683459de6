#include "engine/ffn/sparse_ffn.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/profile.h"

namespace thermocline::engine {
namespace {

constexpr size_t kGroupTokens = kernels::kListedTokens;

Rows From(const Rows& rows, size_t token_idx) {
  if (rows.data == nullptr) return rows;
  return {rows.row(token_idx), rows.width, rows.stride};
}

class SparseFfn final : public FfnExecutor {
 public:
  SparseFfn(const SparseFfnParts& parts, std::vector<Selection> selections)
      : parts_(parts),
        selections_(std::move(selections)),
        ffn_(parts.config, parts.weights,
             parts.has_candidates  ? Listed::kCandidates
             : parts.order.empty() ? Listed::kAll
                                   : Listed::kAllReordered,
             parts.rest_below, parts.compute, parts.scratch, parts.board) {}

  void Select(size_t num_tokens) override {
    for (const Selection& selection : selections_) {
      ScopedStage stage(*parts_.compute, Stage::kSelect);
      selection.selector->Select(*selection.x, num_tokens);
      if (!IsCounted(num_tokens)) continue;
      stage.AddBytes(selection.selector->num_bytes());
      parts_.totals->num_bytes += selection.selector->num_bytes();
    }
  }

  void Run(size_t num_tokens) override {
    {
      ScopedStage stage(*parts_.compute, Stage::kNeurons);
      for (size_t first = 0; first < num_tokens; first += kGroupTokens) {
        const size_t count = std::min(kGroupTokens, num_tokens - first);
        const std::span<const NeuronList> lists = MakeLists(first, count);
        ffn_.Run(From(parts_.scratch->normed, first), lists,
                 From(parts_.scratch->up, first),
                 From(parts_.scratch->delta, first),
                 parts_.scratch->observed ? From(parts_.scratch->gate, first)
                                          : Rows());
        if (parts_.scratch->observed) Observe(first, lists);
      }
      if (IsCounted(num_tokens)) stage.AddBytes(CountToken());
    }
    if (!parts_.weights->down_t) AddUpHidden(num_tokens);
  }

 private:
  // What several tokens read together is not known, and so not what experts
  // read that got one of them each.
  bool IsCounted(size_t num_tokens) const {
    return num_tokens == 1 && !parts_.compute->is_batch;
  }

  // The neurons of tokens [first, first + count).
  std::span<const NeuronList> MakeLists(size_t first, size_t count) {
    for (size_t i = 0; i < count; ++i) lists_[i] = MakeList(first + i, i);
    return std::span(lists_).first(count);
  }

  NeuronList MakeList(size_t token_idx, size_t place_in_group) const {
    const SparseScratch& sparse = parts_.scratch->sparse;
    const size_t num_neurons = sparse.num_neurons;
    const NeuronList all = {
        parts_.order.empty() ? sparse.all_ids : parts_.order.data(),
        num_neurons};
    if (!parts_.has_candidates) return all;
    const predictor::NeuronSet set =
        sparse.candidates(parts_.layer_idx, token_idx);
    uint32_t* ids = sparse.ids + place_in_group * num_neurons;
    size_t count = 0;
    if (parts_.order.empty()) {
      set.ForEachIn(0, num_neurons, [&](size_t neuron) {
        ids[count++] = static_cast<uint32_t>(neuron);
      });
    } else {
      for (const uint32_t neuron : parts_.order) {
        if (set.Has(neuron)) ids[count++] = neuron;
      }
    }
    const bool pays = static_cast<double>(count) <=
                      kSparseShareMax * static_cast<double>(num_neurons);
    return pays || parts_.is_mask ? NeuronList{ids, count} : all;
  }

  void Observe(size_t first, std::span<const NeuronList> lists) const {
    const ObservedScratch& observed = parts_.scratch->observed;
    for (size_t t = 0; t < lists.size(); ++t) {
      const predictor::NeuronSet candidates = observed.candidates(first + t);
      for (size_t i = 0; i < lists[t].count; ++i) {
        candidates.Add(lists[t].ids[i]);
      }
      ffn_.AddFired(t, observed.fired(first + t));
    }
  }

  // Adds what the only token of a run has read to the totals. Its bytes.
  size_t CountToken() const {
    SparseTotals& totals = *parts_.totals;
    const size_t num_bytes = ffn_.BytesRead(lists_[0].count, ffn_.num_open(0));
    totals.num_neurons += parts_.scratch->sparse.num_neurons;
    totals.num_candidates += lists_[0].count;
    totals.num_open += ffn_.num_open(0);
    totals.num_bytes += num_bytes;
    if (!parts_.weights->down_t) {
      totals.num_bytes += parts_.weights->down.num_bytes();
    }
    return num_bytes;
  }

  void AddUpHidden(size_t num_tokens) const {
    const ScopedStage stage(*parts_.compute, Stage::kDown,
                            parts_.weights->down.num_bytes());
    const std::array<Product, 1> down = {
        {{parts_.weights->down, parts_.weights->down_bias,
          parts_.scratch->delta}}};
    MultiplyAll(*parts_.compute, parts_.scratch->up, num_tokens, down);
  }

  SparseFfnParts parts_;
  std::vector<Selection> selections_;
  NeuronFfn ffn_;
  std::array<NeuronList, kGroupTokens> lists_;
};

}  // namespace

std::unique_ptr<FfnExecutor> MakeSparseFfn(const SparseFfnParts& parts,
                                           std::vector<Selection> selections) {
  return std::make_unique<SparseFfn>(parts, std::move(selections));
}

}  // namespace thermocline::engine

// Select lets predictors name the neurons of a layer; Run makes lists of them,
// of all neurons where those named would not pay, and gives these to NeuronFfn.
#include "engine/ffn/sparse_ffn.h"

#include <algorithm>
#include <array>
#include <utility>

#include "compute/stage_times.h"

namespace thermocline::engine {
namespace {

constexpr size_t kGroupRows = kernels::kListedTokens;

class SparseFfn final : public FfnExecutor {
 public:
  SparseFfn(const SparseFfnParts& parts, std::vector<Selection> selections)
      : parts_(parts),
        selections_(std::move(selections)),
        ffn_(parts.config, parts.weights, parts.records,
             parts.has_candidates  ? Listed::kCandidates
             : parts.order.empty() ? Listed::kAll
                                   : Listed::kAllReordered,
             parts.rest_below, parts.compute, parts.scratch, parts.board) {}

  Status Select(const FfnCall& call, SelectAt at) override {
    if (at != SelectAt::kFfnInput) return {};
    for (const Selection& selection : selections_) {
      compute::ScopedStage stage(*parts_.compute, compute::Stage::kSelect);
      predictor::Selector& selector = *selection.selector;
      const Status status = selector.Select(
          FormOf(call.phase),
          selection.reads_stream ? call.stream : call.normed, call.num_rows,
          selection.is_of_next_layer ? call.next_sets : call.sets);
      if (!status) return Annotate(selection.title, status.error());
      if (call.totals == nullptr) continue;
      stage.AddBytes(selector.num_bytes());
      call.totals->num_bytes += selector.num_bytes();
    }
    return {};
  }

  Status Run(const FfnCall& call) override {
    if (IsUnion(call)) {
      sparse().named_by_any().Clear();
      sparse().fired_for_any().Clear();
    }
    {
      compute::ScopedStage stage(*parts_.compute, compute::Stage::kNeurons);
      for (size_t first = 0; first < call.num_rows; first += kGroupRows) {
        TC_RETURN_IF_ERROR(
            RunGroup(call, first, std::min(kGroupRows, call.num_rows - first)));
      }
      if (call.totals != nullptr) stage.AddBytes(CountBytes(call));
    }
    if (!parts_.weights->down_t) AddUpHidden(call);
    return {};
  }

  compute::Rows gate() const override {
    return parts_.rest_below == kNothingRests ? parts_.scratch->gate
                                              : compute::Rows();
  }

 private:
  const SparseScratch& sparse() const { return parts_.scratch->sparse; }
  // Several rows of which the bytes count that they read together.
  static bool IsUnion(const FfnCall& call) {
    return call.totals != nullptr && call.num_rows > 1;
  }

  // Rows [first, first + count).
  Status RunGroup(const FfnCall& call, size_t first, size_t count) {
    for (size_t i = 0; i < count; ++i) lists_[i] = MakeList(call, first + i, i);
    const std::span<const NeuronList> lists = std::span(lists_).first(count);
    TC_RETURN_IF_ERROR(
        ffn_.Run(call.normed.From(first), lists, parts_.scratch->up.From(first),
                 call.out.From(first),
                 call.sets.is_recorded ? parts_.scratch->gate.From(first)
                                       : compute::Rows()));
    if (call.sets.is_recorded) Record(call, first, lists);
    if (call.totals != nullptr) CountRows(call, lists);
    return {};
  }

  NeuronList MakeList(const FfnCall& call, size_t row,
                      size_t place_in_group) const {
    const size_t num_neurons = sparse().num_neurons;
    const NeuronList all = {
        parts_.order.empty() ? sparse().all_ids : parts_.order.data(),
        num_neurons};
    if (!parts_.has_candidates) return all;
    const neuron::NeuronSet set = call.sets.named(row);
    uint32_t* ids = sparse().ids + place_in_group * num_neurons;
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

  void Record(const FfnCall& call, size_t first,
              std::span<const NeuronList> lists) const {
    for (size_t i = 0; i < lists.size(); ++i) {
      const neuron::NeuronSet named = call.sets.named(first + i);
      if (!parts_.has_candidates) named.Clear();
      AddListed(lists[i], named);
      call.sets.fired(first + i).Clear();
      ffn_.AddFired(i, call.sets.fired(first + i));
    }
  }

  void AddListed(const NeuronList& list, const neuron::NeuronSet& set) const {
    if (list.count == set.num_neurons) {
      set.Fill();
      return;
    }
    for (size_t i = 0; i < list.count; ++i) set.Add(list.ids[i]);
  }

  // What each row of a group has to do with the totals, and with their union.
  void CountRows(const FfnCall& call, std::span<const NeuronList> lists) const {
    SparseTotals& totals = *call.totals;
    for (size_t i = 0; i < lists.size(); ++i) {
      totals.num_neurons += sparse().num_neurons;
      totals.num_candidates += lists[i].count;
      totals.num_open += ffn_.num_open(i);
      if (!IsUnion(call)) continue;
      AddListed(lists[i], sparse().named_by_any());
      ffn_.AddFired(i, sparse().fired_for_any());
    }
  }

  // Adds what all rows have read together. The neurons' bytes.
  size_t CountBytes(const FfnCall& call) const {
    SparseTotals& totals = *call.totals;
    const bool is_union = IsUnion(call);
    const size_t num_named =
        is_union ? sparse().named_by_any().Count() : lists_[0].count;
    const size_t num_open =
        is_union ? sparse().fired_for_any().Count() : ffn_.num_open(0);
    const size_t num_bytes = ffn_.BytesRead(num_named, num_open);
    totals.num_union_neurons += sparse().num_neurons;
    totals.num_union_candidates += num_named;
    totals.num_union_open += num_open;
    totals.num_bytes += num_bytes;
    if (!parts_.weights->down_t) {
      totals.num_bytes += parts_.weights->down.num_bytes();
    }
    return num_bytes;
  }

  void AddUpHidden(const FfnCall& call) const {
    const compute::ScopedStage stage(*parts_.compute, compute::Stage::kDown,
                                     parts_.weights->down.num_bytes());
    const std::array<compute::Product, 1> down = {
        {{parts_.weights->down, parts_.weights->down_bias, call.out}}};
    MultiplyAll(*parts_.compute, FormOf(call.phase), parts_.scratch->up,
                call.num_rows, down);
  }

  SparseFfnParts parts_;
  std::vector<Selection> selections_;
  NeuronFfn ffn_;
  std::array<NeuronList, kGroupRows> lists_;
};

}  // namespace

std::unique_ptr<FfnExecutor> MakeSparseFfn(const SparseFfnParts& parts,
                                           std::vector<Selection> selections) {
  return std::make_unique<SparseFfn>(parts, std::move(selections));
}

}  // namespace thermocline::engine

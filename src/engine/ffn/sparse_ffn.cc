// Select lets predictors name the neurons of a layer; Run makes lists of them,
// of all neurons where those named would not pay, and gives these to NeuronFfn.
#include "engine/ffn/sparse_ffn.h"

#include <algorithm>
#include <array>
#include <utility>

#include "compute/stage_times.h"
#include "engine/ffn/device_ffn.h"

namespace thermocline::engine {
namespace {

using compute::Stage;

constexpr size_t kGroupRows = kernels::kListedTokens;
// A device takes as many at once: a group is what its predictor began.
static_assert(kGroupRows == kernels::kDeviceRows);

class SparseFfn final : public FfnExecutor {
 public:
  SparseFfn(const SparseFfnParts& parts, std::vector<Selection> selections)
      : parts_(parts),
        selections_(std::move(selections)),
        ffn_(parts.config, parts.weights, parts.records, KindOf(parts),
             parts.rest_below, parts.compute, parts.scratch, parts.board) {
    if (parts.device != nullptr) ListMissing();
  }

  Status Select(const FfnCall& call, SelectAt at) override {
    if (at != SelectAt::kFfnInput) return {};
    for (const Selection& selection : selections_) {
      compute::ScopedStage stage(*parts_.compute, Stage::kSelect);
      predictor::Selector& selector = *selection.selector;
      const Status status = selector.Select(
          FormOf(call.phase),
          selection.reads_stream ? call.stream : call.normed, call.num_rows,
          selection.is_of_next_layer ? call.next_sets : call.sets);
      if (!status) return Annotate(selection.title, status.error());
      if (selection.is_of_next_layer) PrefetchNext(call);
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
    for (size_t first = 0; first < call.num_rows; first += kGroupRows) {
      TC_RETURN_IF_ERROR(
          RunGroup(call, first, std::min(kGroupRows, call.num_rows - first)));
    }
    if (call.totals != nullptr) {
      AccountBytes(*parts_.compute, Stage::kNeurons, CountBytes(call));
    }
    if (!parts_.weights->down_t) AddUpHidden(call);
    return {};
  }

  // What a device computes of gates stays there.
  compute::Rows gate() const override {
    return parts_.rest_below == kNothingRests && parts_.device == nullptr
               ? parts_.scratch->gate
               : compute::Rows();
  }

 private:
  const SparseScratch& sparse() const { return parts_.scratch->sparse; }
  // Several rows of which the bytes count that they read together.
  static bool IsUnion(const FfnCall& call) {
    return call.totals != nullptr && call.num_rows > 1;
  }

  static Listed KindOf(const SparseFfnParts& parts) {
    if (parts.has_candidates) return Listed::kCandidates;
    return parts.order.empty() && parts.device == nullptr
               ? Listed::kAll
               : Listed::kAllReordered;
  }

  // Those that the host computes if all are wanted.
  void ListMissing() {
    const neuron::NeuronSet& resident = parts_.device->resident();
    const auto add = [&](size_t neuron) {
      if (!resident.Has(neuron)) {
        missing_.push_back(static_cast<uint32_t>(neuron));
      }
    };
    if (parts_.order.empty()) {
      for (size_t i = 0; i < resident.num_neurons; ++i) add(i);
    } else {
      for (const uint32_t neuron : parts_.order) add(neuron);
    }
  }

  // Rows [first, first + count). A device begins before the host does.
  Status RunGroup(const FfnCall& call, size_t first, size_t count) {
    if (parts_.device != nullptr) parts_.device->Start(count);
    for (size_t i = 0; i < count; ++i) lists_[i] = MakeList(call, first + i, i);
    const std::span<const NeuronList> lists = std::span(lists_).first(count);
    TC_RETURN_IF_ERROR(BeginOnDevice());
    const Status on_host = RunOnHost(call, first, lists);
    TC_RETURN_IF_ERROR(FinishOnDevice(call.out.From(first)));
    TC_RETURN_IF_ERROR(on_host);
    if (call.sets.is_recorded) Record(call, first, lists);
    if (call.totals != nullptr) CountRows(call, lists);
    return {};
  }

  void PrefetchNext(const FfnCall& call) const {
    if (parts_.next_records == nullptr) return;
    for (size_t row = 0; row < call.num_rows; ++row) {
      parts_.next_records->Prefetch(call.next_sets.named(row));
    }
  }

  Status BeginOnDevice() {
    if (parts_.device == nullptr) return {};
    const compute::ScopedStage stage(*parts_.compute, Stage::kDevice);
    return OfDevice(parts_.device->Begin(), parts_.layer_idx, "neurons");
  }

  Status FinishOnDevice(const compute::Rows& out) {
    if (parts_.device == nullptr) return {};
    const compute::ScopedStage stage(*parts_.compute, Stage::kDevice);
    return OfDevice(parts_.device->Finish(out), parts_.layer_idx, "neurons");
  }

  Status RunOnHost(const FfnCall& call, size_t first,
                   std::span<const NeuronList> lists) {
    compute::ScopedStage stage(*parts_.compute, Stage::kNeurons);
    TC_RETURN_IF_ERROR(
        ffn_.Run(call.normed.From(first), lists, parts_.scratch->up.From(first),
                 call.out.From(first),
                 call.sets.is_recorded ? parts_.scratch->gate.From(first)
                                       : compute::Rows()));
    if (parts_.compute->work != nullptr) {
      const uint64_t num_bytes = MostBytes(lists);
      parts_.compute->work->Read(Stage::kNeurons, num_bytes);
      stage.DrawBytes(num_bytes);
    }
    return {};
  }

  // Of several rows at most: neurons that they share are read once.
  size_t MostBytes(std::span<const NeuronList> lists) const {
    size_t num_bytes = 0;
    for (size_t i = 0; i < lists.size(); ++i) {
      num_bytes += ffn_.BytesRead(lists[i].count, ffn_.num_open(i));
    }
    const size_t num_most =
        parts_.device != nullptr ? missing_.size() : sparse().num_neurons;
    return std::min(num_bytes, ffn_.BytesRead(num_most, num_most));
  }

  NeuronList MakeList(const FfnCall& call, size_t row,
                      size_t place_in_group) const {
    const size_t num_neurons = sparse().num_neurons;
    DeviceFfn* device = parts_.device;
    const auto all = [&]() -> NeuronList {
      if (device == nullptr) {
        return {parts_.order.empty() ? sparse().all_ids : parts_.order.data(),
                num_neurons};
      }
      device->SetRow(place_in_group, call.normed.row(row), nullptr);
      return {missing_.data(), missing_.size()};
    };
    if (!parts_.has_candidates) return all();
    const neuron::NeuronSet set = call.sets.named(row);
    if (ComputesAll(set, parts_.is_mask)) return all();
    if (device != nullptr) {
      device->SetRow(place_in_group, call.normed.row(row), &set);
    }
    return ListOf(set, place_in_group);
  }

  // The members that the host computes, in the order in which it reads them.
  NeuronList ListOf(const neuron::NeuronSet& set, size_t place_in_group) const {
    const size_t num_neurons = sparse().num_neurons;
    uint32_t* ids = sparse().ids + place_in_group * num_neurons;
    size_t count = 0;
    if (parts_.device != nullptr) {
      for (const uint32_t neuron : missing_) {
        if (set.Has(neuron)) ids[count++] = neuron;
      }
    } else if (parts_.order.empty()) {
      set.ForEachIn(0, num_neurons, [&](size_t neuron) {
        ids[count++] = static_cast<uint32_t>(neuron);
      });
    } else {
      for (const uint32_t neuron : parts_.order) {
        if (set.Has(neuron)) ids[count++] = neuron;
      }
    }
    return {ids, count};
  }

  void Record(const FfnCall& call, size_t first,
              std::span<const NeuronList> lists) const {
    for (size_t i = 0; i < lists.size(); ++i) {
      const neuron::NeuronSet named = call.sets.named(first + i);
      if (!parts_.has_candidates) named.Clear();
      AddNamed(i, lists[i], named);
      call.sets.fired(first + i).Clear();
      AddFired(i, call.sets.fired(first + i));
    }
  }

  // Of row i of a group, on the host and on the device.
  void AddNamed(size_t i, const NeuronList& list,
                const neuron::NeuronSet& set) const {
    AddListed(list, set);
    if (parts_.device != nullptr) parts_.device->AddWanted(i, set);
  }
  void AddFired(size_t i, const neuron::NeuronSet& set) const {
    ffn_.AddFired(i, set);
    if (parts_.device != nullptr) parts_.device->AddFired(i, set);
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
      if (parts_.device != nullptr) CountDevice(i, totals);
      if (!IsUnion(call)) continue;
      AddNamed(i, lists[i], sparse().named_by_any());
      AddFired(i, sparse().fired_for_any());
    }
  }

  void CountDevice(size_t i, SparseTotals& totals) const {
    const size_t num_wanted = parts_.device->num_wanted(i);
    const size_t num_fired = parts_.device->num_fired(i);
    totals.num_candidates += num_wanted;
    totals.num_open += num_fired;
    totals.num_device_candidates += num_wanted;
    totals.num_device_open += num_fired;
  }

  // Adds what all rows have read together. The neurons' bytes.
  size_t CountBytes(const FfnCall& call) const {
    SparseTotals& totals = *call.totals;
    const bool is_union = IsUnion(call);
    size_t num_named =
        is_union ? sparse().named_by_any().Count() : lists_[0].count;
    size_t num_open =
        is_union ? sparse().fired_for_any().Count() : ffn_.num_open(0);
    if (parts_.device != nullptr) {
      CountDeviceBytes(is_union, num_named, num_open, totals);
    }
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

  // Takes what is resident off the counts of a union, which are of all neurons.
  void CountDeviceBytes(bool is_union, size_t& num_named, size_t& num_open,
                        SparseTotals& totals) const {
    const DeviceFfn& device = *parts_.device;
    size_t num_wanted = device.num_wanted(0);
    size_t num_fired = device.num_fired(0);
    if (is_union) {
      num_wanted = sparse().named_by_any().CountIn(device.resident());
      num_fired = sparse().fired_for_any().CountIn(device.resident());
      num_named -= num_wanted;
      num_open -= num_fired;
    }
    totals.num_union_candidates += num_wanted;
    totals.num_union_open += num_fired;
    totals.num_device_bytes += device.BytesRead(num_wanted, num_fired);
  }

  void AddUpHidden(const FfnCall& call) const {
    const compute::ScopedStage stage(*parts_.compute, Stage::kDown,
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
  std::vector<uint32_t> missing_;  // on the device, in the order of reading
};

}  // namespace

std::unique_ptr<FfnExecutor> MakeSparseFfn(const SparseFfnParts& parts,
                                           std::vector<Selection> selections) {
  return std::make_unique<SparseFfn>(parts, std::move(selections));
}

}  // namespace thermocline::engine

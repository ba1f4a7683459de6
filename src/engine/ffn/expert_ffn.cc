#include "engine/ffn/expert_ffn.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "base/check.h"
#include "compute/stage_times.h"
#include "engine/ffn/expert_rows.h"
#include "engine/ffn/sparse_ffn.h"

namespace thermocline::engine {
namespace {

using kernels::kDeviceRows;

class ExpertFfn final : public FfnExecutor, private ExpertRows {
 public:
  explicit ExpertFfn(const ExpertFfnParts& parts)
      : ExpertRows(*parts.config, parts.compute, &parts.scratch->experts),
        layer_idx_(parts.layer_idx),
        router_input_(parts.config->router_input),
        router_(parts.weights->router),
        device_(parts.device),
        has_candidates_(parts.has_candidates),
        is_mask_(parts.is_mask),
        stream_(parts.stream),
        guess_(parts.next, parts.compute) {
    if (parts.records.stream != nullptr) records_.emplace(parts.records);
    TC_CHECK(parts.weights->experts.size() == num_experts_);
    // The executors keep pointers to the elements: neither vector grows later.
    expert_weights_.reserve(num_experts_);
    chosen_.reserve(num_experts_);
    experts_.reserve(num_experts_);
    for (const model::FfnMatrices& matrices : parts.weights->experts) {
      model::FfnWeights& expert = expert_weights_.emplace_back();
      static_cast<model::FfnMatrices&>(expert) = matrices;
      experts_.push_back(parts.make_one(experts_.size(), &expert));
    }
  }
  ExpertFfn(const ExpertFfn&) = delete;
  ExpertFfn& operator=(const ExpertFfn&) = delete;

  compute::Rows gate() const override {
    const bool are_there = experts_.front()->gate().data != nullptr &&
                           (device_ == nullptr || device_->has_raw());
    return are_there ? scratch_.gates : compute::Rows();
  }

  Status Select(const FfnCall& call, SelectAt at) override {
    if (at != SelectAt::kLayerInput ||
        router_input_ != model::RouterInput::kLayerInput) {
      return {};
    }
    // Attention has scratch of its own: what was chosen stays until Run.
    Route(call, call.stream, /*clears=*/false);
    if (stream_ != nullptr) BeginReads(call);
    if (records_) BeginRecords(call);
    return {};
  }

  Status Run(const FfnCall& call) override {
    if (router_input_ == model::RouterInput::kFfnInput) {
      Route(call, call.normed, /*clears=*/true);
      if (stream_ != nullptr) BeginReads(call);
      if (records_) BeginRecords(call);
    } else {
      for (size_t t = 0; t < call.num_rows; ++t) Clear(call, t);
    }
    if (stream_ != nullptr) return RunStreamed(call);
    if (records_) return RunOfRecords(call);
    if (device_ == nullptr) {
      GroupByExpert(0, call.num_rows);
      return RunOnHost(call);
    }
    for (size_t first = 0; first < call.num_rows; first += kDeviceRows) {
      GroupByExpert(first, std::min(kDeviceRows, call.num_rows - first));
      TC_RETURN_IF_ERROR(RunOnBoth(call));
    }
    return {};
  }

 private:
  // Picks each row's experts by what it has in x.
  void Route(const FfnCall& call, const compute::Rows& x, bool clears) const {
    const compute::ScopedStage stage(*compute_, compute::Stage::kRoute,
                                     router_.num_bytes());
    const std::array<compute::Product, 1> route = {
        {{router_, TensorView(), scratch_.shares}}};
    MultiplyAll(*compute_, FormOf(call.phase), x, call.num_rows, route);
    compute_->pool->ParallelFor(
        call.num_rows, 1, [&](size_t begin, size_t end, int /*worker_idx*/) {
          for (size_t t = begin; t < end; ++t) {
            ChooseExperts(scratch_.shares.span(t),
                          {scratch_.chosen + t * num_used_, num_used_},
                          scratch_.weights.span(t));
            if (clears) Clear(call, t);
          }
        });
  }

  // What a row's experts add to.
  static void Clear(const FfnCall& call, size_t row) {
    std::ranges::fill(call.out.span(row), 0.0f);
    if (!call.sets.is_recorded) return;
    call.sets.named(row).Clear();
    call.sets.fired(row).Clear();
  }

  Status RunOnHost(const FfnCall& call) const {
    return ForEachChosen(
        [&](size_t e, std::span<const size_t> choices) -> Status {
          const FfnCall group = Gather(call, choices, scratch_.out);
          TC_RETURN_IF_ERROR(RunExpert(call, group, e, choices));
          AddWeighted(call, choices, group.out);
          return {};
        });
  }

  size_t NumChoices(const FfnCall& call) const {
    return call.num_rows * num_used_;
  }
  bool AreFew(const FfnCall& call) const {
    return NumChoices(call) <= kNumApart;
  }

  void ListChosen(const FfnCall& call) {
    GroupByExpert(0, call.num_rows);
    chosen_.clear();
    for (uint32_t e = 0; e < num_experts_; ++e) {
      if (!ChoicesOf(e).empty()) chosen_.push_back(e);
    }
  }

  // What can be asked for without predictors, which read the FFN's input.
  void BeginRecords(const FfnCall& call) {
    ListChosen(call);
    records_->Begin(chosen_.size(), NumChoices(call));
    if (records_->has_candidates()) return;
    const size_t count = records_->are_together() ? chosen_.size() : 1;
    for (size_t i = 0; i < count; ++i) records_->AskForAll(chosen_[i]);
  }

  Status RunOfRecords(const FfnCall& call) {
    const bool are_named =
        records_->has_candidates() && records_->are_together();
    if (are_named) TC_RETURN_IF_ERROR(NameAll(call));
    for (size_t i = 0; i < chosen_.size(); ++i) {
      const uint32_t e = chosen_[i];
      if (!records_->has_candidates() && !records_->are_together() &&
          i + 1 < chosen_.size()) {
        records_->AskForAll(chosen_[i + 1]);
      }
      const std::span<const size_t> choices = ChoicesOf(e);
      FfnCall group = Gather(call, choices, scratch_.out);
      if (are_named) group.sets = records_->sets(scratch_.group_begin[e]);
      TC_RETURN_IF_ERROR(RunExpert(call, group, e, choices, !are_named));
      AddWeighted(call, choices, group.out);
    }
    records_->End();
    return {};
  }

  // Lets the predictors of all experts name their neurons, and asks for them.
  Status NameAll(const FfnCall& call) {
    for (const uint32_t e : chosen_) {
      const std::span<const size_t> choices = ChoicesOf(e);
      FfnCall group = Gather(call, choices, scratch_.out);
      group.sets = records_->sets(scratch_.group_begin[e]);
      TC_RETURN_IF_ERROR(experts_[e]->Select(group, SelectAt::kFfnInput));
      records_->AskForNamed(e, scratch_.group_begin[e], choices.size());
    }
    return {};
  }

  // Asks for all that were chosen. Where that is nearly all there are, so it
  // will be in the next layer.
  void BeginReads(const FfnCall& call) {
    ListChosen(call);
    stream_->Begin(layer_idx_, chosen_, call.phase,
                   !AreFew(call) && NumChoices(call) >= 2 * num_experts_);
  }

  Status RunStreamed(const FfnCall& call) {
    if (AreFew(call) && call.phase == Phase::kGenerate) {
      guess_.Make(call, scratch_, *stream_);
    }
    TC_RETURN_IF_ERROR(AreFew(call) ? RunAsTheyCome(call) : RunInOrder(call));
    stream_->End();
    return {};
  }

  // Their outputs stay apart until all are there, and are added in the order of
  // the experts.
  Status RunAsTheyCome(const FfnCall& call) {
    const auto out_of = [&](size_t expert_idx) {
      return stream_->apart().From(scratch_.group_begin[expert_idx]);
    };
    for (size_t i = 0; i < chosen_.size(); ++i) {
      TC_ASSIGN_OR_RETURN(const uint32_t e, stream_->TakeAny());
      TC_RETURN_IF_ERROR(RunPlaced(call, e, out_of(e)));
    }
    return ForEachChosen(
        [&](size_t e, std::span<const size_t> choices) -> Status {
          AddWeighted(call, choices, out_of(e));
          return {};
        });
  }

  Status RunInOrder(const FfnCall& call) {
    for (const uint32_t e : chosen_) {
      TC_RETURN_IF_ERROR(stream_->Take(e));
      TC_RETURN_IF_ERROR(RunPlaced(call, e, scratch_.out));
      AddWeighted(call, ChoicesOf(e), scratch_.out);
    }
    return {};
  }

  // One that was taken.
  Status RunPlaced(const FfnCall& call, uint32_t expert_idx,
                   const compute::Rows& out) {
    const std::span<const size_t> choices = ChoicesOf(expert_idx);
    stream_->Place(expert_idx, expert_weights_[expert_idx]);
    TC_RETURN_IF_ERROR(
        RunExpert(call, Gather(call, choices, out), expert_idx, choices));
    stream_->GiveBack(expert_idx);
    return {};
  }

  // The device's experts begin before the host's do. Their outputs stay apart
  // until all are there, and are added in the order of the experts.
  Status RunOnBoth(const FfnCall& call) const {
    TC_RETURN_IF_ERROR(BeginOnDevice(call));
    const Status on_host =
        ForEachChosen([&](size_t e, std::span<const size_t> choices) -> Status {
          if (device_->Has(e)) return {};
          const compute::Rows out = device_->AddOther(e, choices.size());
          return RunExpert(call, Gather(call, choices, out), e, choices);
        });
    TC_RETURN_IF_ERROR(FinishOnDevice());
    TC_RETURN_IF_ERROR(on_host);
    return ForEachChosen(
        [&](size_t e, std::span<const size_t> choices) -> Status {
          if (device_->Has(e)) TellOfDevice(call, e, choices);
          AddWeighted(call, choices, device_->out(e));
          return {};
        });
  }

  Status BeginOnDevice(const FfnCall& call) const {
    device_->Start();
    TC_RETURN_IF_ERROR(
        ForEachChosen([&](size_t e, std::span<const size_t> choices) -> Status {
          return device_->Has(e) ? AddToDevice(call, e, choices) : Status();
        }));
    const compute::ScopedStage stage(*compute_, compute::Stage::kDevice);
    return OfDevice(device_->Begin(call.sets.is_recorded), layer_idx_,
                    "experts");
  }

  Status FinishOnDevice() const {
    const compute::ScopedStage stage(*compute_, compute::Stage::kDevice);
    return OfDevice(device_->Finish(), layer_idx_, "experts");
  }

  // Candidates are the host's to choose.
  Status AddToDevice(const FfnCall& call, size_t expert_idx,
                     std::span<const size_t> choices) const {
    device_->AddExpert(expert_idx);
    if (has_candidates_) {
      const FfnCall group = Gather(call, choices, scratch_.out);
      TC_RETURN_IF_ERROR(
          experts_[expert_idx]->Select(group, SelectAt::kFfnInput));
    }
    for (size_t i = 0; i < choices.size(); ++i) {
      const float* x = call.normed.row(choices[i] / num_used_);
      if (!has_candidates_) {
        device_->AddRow(x, nullptr);
        continue;
      }
      const neuron::NeuronSet set = scratch_.sets.named(i);
      device_->AddRow(x, ComputesAll(set, is_mask_) ? nullptr : &set);
    }
    return {};
  }

  // What a device's expert did.
  void TellOfDevice(const FfnCall& call, size_t expert_idx,
                    std::span<const size_t> choices) const {
    if (call.totals != nullptr) device_->Count(expert_idx, *call.totals);
    if (!call.sets.is_recorded) return;
    for (size_t i = 0; i < choices.size(); ++i) {
      device_->Describe(expert_idx, i, scratch_.sets.named(i),
                        scratch_.sets.fired(i));
    }
    Record(call, scratch_.sets, expert_idx, choices,
           gate().data != nullptr ? device_->raw(expert_idx) : compute::Rows());
  }

  Status RunExpert(const FfnCall& call, const FfnCall& group, size_t expert_idx,
                   std::span<const size_t> choices, bool selects = true) const {
    FfnExecutor& expert = *experts_[expert_idx];
    if (selects) {
      TC_RETURN_IF_ERROR(expert.Select(group, SelectAt::kFfnInput));
    }
    TC_RETURN_IF_ERROR(expert.Run(group));
    if (call.sets.is_recorded) {
      Record(call, group.sets, expert_idx, choices, expert.gate());
    }
    return {};
  }

  // From what an expert tells of its rows to the call's.
  void Record(const FfnCall& call, const neuron::ActiveSets& sets,
              size_t expert_idx, std::span<const size_t> choices,
              const compute::Rows& gates) const {
    const size_t num_neurons = sets.num_neurons;
    const auto add = [&](const neuron::NeuronSet& from,
                         const neuron::NeuronSet& to) {
      from.ForEachIn(0, num_neurons, [&](size_t neuron) {
        to.Add(expert_idx * num_neurons + neuron);
      });
    };
    for (size_t i = 0; i < choices.size(); ++i) {
      const size_t t = choices[i] / num_used_;
      add(sets.named(i), call.sets.named(t));
      add(sets.fired(i), call.sets.fired(t));
      if (gates.data != nullptr) KeepGate(gates, i, choices[i]);
    }
  }

  // Of the group's row `place`, which chose the expert as its choice-th.
  void KeepGate(const compute::Rows& from, size_t place, size_t choice) const {
    float* to = scratch_.gates.row(choice / num_used_) +
                choice % num_used_ * from.width;
    std::ranges::copy(from.span(place), to);
  }

  size_t layer_idx_;
  model::RouterInput router_input_;
  TensorView router_;
  DeviceExperts* device_;
  bool has_candidates_, is_mask_;  // of the device's
  ExpertStream* stream_;
  ExpertGuess guess_;
  std::optional<ExpertRecords> records_;
  std::vector<uint32_t> chosen_;  // by any row, ascending
  std::vector<model::FfnWeights> expert_weights_;
  std::vector<std::unique_ptr<FfnExecutor>> experts_;
};

}  // namespace

std::unique_ptr<FfnExecutor> MakeExpertFfn(const ExpertFfnParts& parts) {
  return std::make_unique<ExpertFfn>(parts);
}

}  // namespace thermocline::engine

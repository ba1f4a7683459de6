#include "engine/ffn/expert_ffn.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "compute/stage_times.h"

namespace thermocline::engine {
namespace {

void SoftmaxInPlace(std::span<float> values) {
  const float highest = *std::ranges::max_element(values);
  float total = 0.0f;
  for (float& value : values) total += value = std::exp(value - highest);
  for (float& value : values) value /= total;
}

class ExpertFfn final : public FfnExecutor {
 public:
  ExpertFfn(const model::FfnSpec* config, const model::FfnWeights* weights,
            const compute::Compute* compute, const FfnScratch* scratch,
            const MakeOneExpert& make_one)
      : num_experts_(config->num_experts),
        num_used_(config->num_experts_used),
        router_(weights->router),
        compute_(compute),
        scratch_(scratch->experts) {
    TC_CHECK(weights->experts.size() == num_experts_);
    // The executors keep pointers to the elements: neither vector grows later.
    expert_weights_.reserve(num_experts_);
    experts_.reserve(num_experts_);
    for (const model::FfnMatrices& matrices : weights->experts) {
      model::FfnWeights& expert = expert_weights_.emplace_back();
      static_cast<model::FfnMatrices&>(expert) = matrices;
      experts_.push_back(make_one(experts_.size(), &expert));
    }
  }
  ExpertFfn(const ExpertFfn&) = delete;
  ExpertFfn& operator=(const ExpertFfn&) = delete;

  compute::Rows gate() const override {
    return experts_.front()->gate().data != nullptr ? scratch_.gates
                                                    : compute::Rows();
  }

  Status Run(const FfnCall& call) override {
    Route(call);
    const size_t* begin = scratch_.group_begin;
    for (size_t e = 0; e < num_experts_; ++e) {
      if (begin[e] == begin[e + 1]) continue;
      TC_RETURN_IF_ERROR(RunExpert(
          call, e,
          {scratch_.grouped + begin[e], scratch_.grouped + begin[e + 1]}));
    }
    return {};
  }

 private:
  void Route(const FfnCall& call) const {
    const compute::ScopedStage stage(*compute_, compute::Stage::kRoute,
                                     router_.num_bytes());
    const std::array<compute::Product, 1> route = {
        {{router_, TensorView(), scratch_.shares}}};
    MultiplyAll(*compute_, FormOf(call.phase), call.normed, call.num_rows,
                route);
    Choose(call);
    GroupByExpert(call.num_rows);
  }

  // Picks each row's experts, and clears what they will add to.
  void Choose(const FfnCall& call) const {
    compute_->pool->ParallelFor(
        call.num_rows, 1, [&](size_t begin, size_t end, int /*worker_idx*/) {
          for (size_t t = begin; t < end; ++t) {
            ChooseExperts(scratch_.shares.span(t),
                          {scratch_.chosen + t * num_used_, num_used_},
                          scratch_.weights.span(t));
            std::ranges::fill(call.out.span(t), 0.0f);
            if (!call.sets.is_recorded) continue;
            call.sets.named(t).Clear();
            call.sets.fired(t).Clear();
          }
        });
  }

  // Sorts the choices (numbered t * U + rank) by expert, then by row.
  void GroupByExpert(size_t num_rows) const {
    size_t* begin = scratch_.group_begin;
    const size_t num_choices = num_rows * num_used_;
    std::fill_n(begin, num_experts_ + 1, 0);
    for (size_t i = 0; i < num_choices; ++i) ++begin[scratch_.chosen[i]];
    size_t num_before = 0;
    for (size_t e = 0; e <= num_experts_; ++e) {
      num_before += begin[e];
      begin[e] = num_before;  // e's end; filling moves it to e's beginning
    }
    for (size_t i = num_choices; i-- > 0;) {
      scratch_.grouped[--begin[scratch_.chosen[i]]] = i;
    }
  }

  // Experts come in the order of their index, so a row's sum has the same order
  // in every batch.
  Status RunExpert(const FfnCall& call, size_t expert_idx,
                   std::span<const size_t> choices) const {
    Gather(call, choices);
    const FfnCall group = {.phase = call.phase,
                           .num_rows = choices.size(),
                           .stream = scratch_.in,
                           .normed = scratch_.in,
                           .out = scratch_.out,
                           .sets = scratch_.sets,
                           .totals = call.totals};
    FfnExecutor& expert = *experts_[expert_idx];
    TC_RETURN_IF_ERROR(expert.Select(group, SelectAt::kFfnInput));
    TC_RETURN_IF_ERROR(expert.Run(group));
    if (call.sets.is_recorded) Record(call, expert_idx, choices);
    AddWeighted(call, choices);
    return {};
  }

  // From what an expert tells of its rows to the call's.
  void Record(const FfnCall& call, size_t expert_idx,
              std::span<const size_t> choices) const {
    const size_t num_neurons = scratch_.sets.num_neurons;
    const auto add = [&](const neuron::NeuronSet& from,
                         const neuron::NeuronSet& to) {
      from.ForEachIn(0, num_neurons, [&](size_t neuron) {
        to.Add(expert_idx * num_neurons + neuron);
      });
    };
    for (size_t i = 0; i < choices.size(); ++i) {
      const size_t t = choices[i] / num_used_;
      add(scratch_.sets.named(i), call.sets.named(t));
      add(scratch_.sets.fired(i), call.sets.fired(t));
      KeepGate(expert_idx, i, choices[i]);
    }
  }

  // Of the group's row `place`, which chose the expert as its choice-th.
  void KeepGate(size_t expert_idx, size_t place, size_t choice) const {
    const compute::Rows from = experts_[expert_idx]->gate();
    if (from.data == nullptr) return;
    float* to = scratch_.gates.row(choice / num_used_) +
                choice % num_used_ * from.width;
    std::ranges::copy(from.span(place), to);
  }

  // The inputs of one expert's rows.
  void Gather(const FfnCall& call, std::span<const size_t> choices) const {
    const compute::ScopedStage stage(*compute_, compute::Stage::kRoute);
    compute_->pool->ParallelFor(
        choices.size(), 1, [&](size_t begin, size_t end, int /*worker_idx*/) {
          for (size_t i = begin; i < end; ++i) {
            std::ranges::copy(call.normed.span(choices[i] / num_used_),
                              scratch_.in.row(i));
          }
        });
  }

  // Its outputs, added to what its rows have. A row has an expert at most once:
  // those that threads add to are different ones.
  void AddWeighted(const FfnCall& call, std::span<const size_t> choices) const {
    const compute::ScopedStage stage(*compute_, compute::Stage::kRoute);
    const compute::Rows& from = scratch_.out;
    compute_->pool->ParallelFor(
        choices.size(), 1, [&](size_t begin, size_t end, int /*worker_idx*/) {
          for (size_t i = begin; i < end; ++i) {
            const size_t t = choices[i] / num_used_;
            compute_->kernels->add_rows(DType::kF32)(
                {.rows = reinterpret_cast<const std::byte*>(from.row(i)),
                 .row_bytes = from.width * sizeof(float),
                 .ids = nullptr,
                 .coefs = scratch_.weights.row(t) + choices[i] % num_used_,
                 .num_rows = 1,
                 .n = from.width,
                 .out = call.out.row(t)});
          }
        });
  }

  size_t num_experts_;
  size_t num_used_;
  TensorView router_;
  const compute::Compute* compute_;
  const ExpertScratch& scratch_;
  std::vector<model::FfnWeights> expert_weights_;
  std::vector<std::unique_ptr<FfnExecutor>> experts_;
};

}  // namespace

void ChooseExperts(std::span<float> shares, std::span<uint32_t> chosen,
                   std::span<float> weights) {
  TC_DCHECK(!chosen.empty() && chosen.size() <= shares.size());
  SoftmaxInPlace(shares);
  // Insertion into the list of the best so far. A comparison with NaN is
  // false: such shares stay where they are, and every place is still filled.
  size_t num_chosen = 0;
  for (uint32_t e = 0; e < shares.size(); ++e) {
    size_t rank = num_chosen;
    while (rank > 0 && shares[e] > shares[chosen[rank - 1]]) --rank;
    if (rank == chosen.size()) continue;
    if (num_chosen < chosen.size()) ++num_chosen;
    std::copy_backward(chosen.begin() + static_cast<ptrdiff_t>(rank),
                       chosen.begin() + static_cast<ptrdiff_t>(num_chosen) - 1,
                       chosen.begin() + static_cast<ptrdiff_t>(num_chosen));
    chosen[rank] = e;
  }
  float total = 0.0f;
  for (const uint32_t e : chosen) total += shares[e];
  for (size_t i = 0; i < chosen.size(); ++i) {
    weights[i] = shares[chosen[i]] / total;
  }
}

std::unique_ptr<FfnExecutor> MakeExpertFfn(const model::FfnSpec* config,
                                           const model::FfnWeights* weights,
                                           const compute::Compute* compute,
                                           const FfnScratch* scratch,
                                           const MakeOneExpert& make_one) {
  return std::make_unique<ExpertFfn>(config, weights, compute, scratch,
                                     make_one);
}

}  // namespace thermocline::engine

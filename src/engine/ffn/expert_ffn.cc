#include "engine/ffn/expert_ffn.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "engine/profile.h"

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
  ExpertFfn(const model::FfnConfig* config, const model::FfnWeights* weights,
            const Compute* compute, const Scratch* scratch,
            const MakeOneExpert& make_one)
      : num_experts_(static_cast<size_t>(config->num_experts)),
        num_used_(static_cast<size_t>(config->num_experts_used)),
        router_(weights->router),
        compute_(compute),
        scratch_(scratch),
        group_scratch_(*scratch) {
    TC_CHECK(weights->experts.size() == num_experts_);
    group_scratch_.normed = scratch->experts.in;
    group_scratch_.delta = scratch->experts.out;
    if (scratch->observed) {
      group_scratch_.observed = {.num_neurons = scratch->up.width,
                                 .words = scratch->observed.expert_words};
    }
    // The executors keep pointers to the elements: neither vector grows later.
    expert_weights_.reserve(num_experts_);
    experts_.reserve(num_experts_);
    for (const model::FfnMatrices& matrices : weights->experts) {
      model::FfnWeights& expert = expert_weights_.emplace_back();
      static_cast<model::FfnMatrices&>(expert) = matrices;
      experts_.push_back(make_one(experts_.size(), &expert, &group_scratch_));
    }
  }
  ExpertFfn(const ExpertFfn&) = delete;
  ExpertFfn& operator=(const ExpertFfn&) = delete;

  Rows gate() const override {
    return experts_.front()->gate().data != nullptr ? scratch_->observed.gates
                                                    : Rows();
  }

  void Run(size_t num_tokens) override {
    Route(num_tokens);
    const size_t* begin = scratch_->experts.group_begin;
    for (size_t e = 0; e < num_experts_; ++e) {
      if (begin[e] == begin[e + 1]) continue;
      RunExpert(e, {scratch_->experts.grouped + begin[e],
                    scratch_->experts.grouped + begin[e + 1]});
    }
  }

 private:
  void Route(size_t num_tokens) const {
    const ScopedStage stage(*compute_, Stage::kRoute, router_.num_bytes());
    const std::array<Product, 1> route = {
        {{router_, TensorView(), scratch_->experts.shares}}};
    MultiplyAll(*compute_, scratch_->normed, num_tokens, route);
    Choose(num_tokens);
    GroupByExpert(num_tokens);
  }

  // Picks each token's experts, and clears what they will add to.
  void Choose(size_t num_tokens) const {
    const ExpertScratch& experts = scratch_->experts;
    compute_->pool->ParallelFor(
        num_tokens, 1, [&](size_t begin, size_t end, int /*worker_idx*/) {
          for (size_t t = begin; t < end; ++t) {
            ChooseExperts(experts.shares.span(t),
                          {experts.chosen + t * num_used_, num_used_},
                          experts.weights.span(t));
            std::ranges::fill(scratch_->delta.span(t), 0.0f);
          }
        });
  }

  // Sorts the choices (numbered t * U + rank) by expert, then by token.
  void GroupByExpert(size_t num_tokens) const {
    const ExpertScratch& experts = scratch_->experts;
    size_t* begin = experts.group_begin;
    const size_t num_choices = num_tokens * num_used_;
    std::fill_n(begin, num_experts_ + 1, 0);
    for (size_t i = 0; i < num_choices; ++i) ++begin[experts.chosen[i]];
    size_t num_before = 0;
    for (size_t e = 0; e <= num_experts_; ++e) {
      num_before += begin[e];
      begin[e] = num_before;  // e's end; filling moves it to e's beginning
    }
    for (size_t i = num_choices; i-- > 0;) {
      experts.grouped[--begin[experts.chosen[i]]] = i;
    }
  }

  // Experts come in the order of their index, so a token's sum has the same
  // order in every batch.
  void RunExpert(size_t expert_idx, std::span<const size_t> choices) const {
    Gather(choices);
    if (scratch_->observed) ClearGroup(choices.size());
    experts_[expert_idx]->Select(choices.size());
    experts_[expert_idx]->Run(choices.size());
    if (scratch_->observed) Observe(expert_idx, choices);
    AddWeighted(choices);
  }

  void ClearGroup(size_t num_tokens) const {
    for (size_t i = 0; i < num_tokens; ++i) {
      group_scratch_.observed.candidates(i).Clear();
      group_scratch_.observed.fired(i).Clear();
    }
  }

  // From what an expert tells of its tokens to the batch's.
  void Observe(size_t expert_idx, std::span<const size_t> choices) const {
    const ObservedScratch& group = group_scratch_.observed;
    const auto add = [&](const predictor::NeuronSet& from,
                         const predictor::NeuronSet& to) {
      from.ForEachIn(0, group.num_neurons, [&](size_t neuron) {
        to.Add(expert_idx * group.num_neurons + neuron);
      });
    };
    for (size_t i = 0; i < choices.size(); ++i) {
      const size_t t = choices[i] / num_used_;
      add(group.candidates(i), scratch_->observed.candidates(t));
      add(group.fired(i), scratch_->observed.fired(t));
      KeepGate(expert_idx, i, choices[i]);
    }
  }

  // Of the group's token `place`, which chose the expert as its choice-th.
  void KeepGate(size_t expert_idx, size_t place, size_t choice) const {
    const Rows from = experts_[expert_idx]->gate();
    if (from.data == nullptr) return;
    float* to = scratch_->observed.gates.row(choice / num_used_) +
                choice % num_used_ * from.width;
    std::ranges::copy(from.span(place), to);
  }

  // The inputs of one expert's tokens.
  void Gather(std::span<const size_t> choices) const {
    const ScopedStage stage(*compute_, Stage::kRoute);
    const ExpertScratch& experts = scratch_->experts;
    compute_->pool->ParallelFor(
        choices.size(), 1, [&](size_t begin, size_t end, int /*worker_idx*/) {
          for (size_t i = begin; i < end; ++i) {
            std::ranges::copy(scratch_->normed.span(choices[i] / num_used_),
                              experts.in.row(i));
          }
        });
  }

  // Its outputs, added to what its tokens have. A token has an expert at most
  // once: the rows that threads add to are different ones.
  void AddWeighted(std::span<const size_t> choices) const {
    const ScopedStage stage(*compute_, Stage::kRoute);
    const ExpertScratch& experts = scratch_->experts;
    compute_->pool->ParallelFor(
        choices.size(), 1, [&](size_t begin, size_t end, int /*worker_idx*/) {
          for (size_t i = begin; i < end; ++i) {
            const size_t t = choices[i] / num_used_;
            compute_->kernels->add_rows(DType::kF32)(
                {.rows = reinterpret_cast<const std::byte*>(experts.out.row(i)),
                 .row_bytes = experts.out.width * sizeof(float),
                 .ids = nullptr,
                 .coefs = experts.weights.row(t) + choices[i] % num_used_,
                 .num_rows = 1,
                 .n = experts.out.width,
                 .out = scratch_->delta.row(t)});
          }
        });
  }

  size_t num_experts_;
  size_t num_used_;
  TensorView router_;
  const Compute* compute_;
  const Scratch* scratch_;
  Scratch group_scratch_;  // the batch's, with a group's rows in and out
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

std::unique_ptr<FfnExecutor> MakeExpertFfn(const model::FfnConfig* config,
                                           const model::FfnWeights* weights,
                                           const Compute* compute,
                                           const Scratch* scratch,
                                           const MakeOneExpert& make_one) {
  return std::make_unique<ExpertFfn>(config, weights, compute, scratch,
                                     make_one);
}

}  // namespace thermocline::engine

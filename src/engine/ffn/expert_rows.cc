#include "engine/ffn/expert_rows.h"

#include <algorithm>

#include "compute/stage_times.h"

namespace thermocline::engine {

void ExpertRows::GroupByExpert(size_t first_row, size_t num_rows) const {
  size_t* begin = scratch_.group_begin;
  const size_t first = first_row * num_used_;
  const size_t end = first + num_rows * num_used_;
  std::fill_n(begin, num_experts_ + 1, 0);
  for (size_t i = first; i < end; ++i) ++begin[scratch_.chosen[i]];
  size_t num_before = 0;
  for (size_t e = 0; e <= num_experts_; ++e) {
    num_before += begin[e];
    begin[e] = num_before;  // e's end; filling moves it to e's beginning
  }
  for (size_t i = end; i-- > first;) {
    scratch_.grouped[--begin[scratch_.chosen[i]]] = i;
  }
}

FfnCall ExpertRows::Gather(const FfnCall& call, std::span<const size_t> choices,
                           const compute::Rows& out) const {
  const compute::ScopedStage stage(*compute_, compute::Stage::kRoute);
  compute_->pool->ParallelFor(
      choices.size(), 1, [&](size_t begin, size_t end, int /*worker_idx*/) {
        for (size_t i = begin; i < end; ++i) {
          std::ranges::copy(call.normed.span(choices[i] / num_used_),
                            scratch_.in.row(i));
        }
      });
  return {.phase = call.phase,
          .num_rows = choices.size(),
          .stream = scratch_.in,
          .normed = scratch_.in,
          .out = out,
          .sets = scratch_.sets,
          .totals = call.totals};
}

void ExpertRows::AddWeighted(const FfnCall& call,
                             std::span<const size_t> choices,
                             const compute::Rows& from) const {
  const compute::ScopedStage stage(*compute_, compute::Stage::kRoute);
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

}  // namespace thermocline::engine

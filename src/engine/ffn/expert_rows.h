// Which of a batch's rows go to which expert, and back.
#ifndef THERMOCLINE_ENGINE_FFN_EXPERT_ROWS_H_
#define THERMOCLINE_ENGINE_FFN_EXPERT_ROWS_H_

#include <cstddef>
#include <span>

#include "base/status.h"
#include "compute/matmul.h"
#include "compute/rows.h"
#include "engine/ffn/ffn_executor.h"
#include "engine/ffn/ffn_scratch.h"
#include "model/config.h"

namespace thermocline::engine {

// Choices are numbered t * U + rank, of a call's rows t, of which each has
// chosen U experts (ExpertScratch::chosen).
class ExpertRows {
 public:
  // compute and scratch outlive it.
  ExpertRows(const model::FfnSpec& config, const compute::Compute* compute,
             const ExpertScratch* scratch)
      : num_experts_(config.num_experts),
        num_used_(config.num_experts_used),
        compute_(compute),
        scratch_(*scratch) {}

  // Sorts the choices of rows [first_row, first_row + num_rows) by expert, then
  // by row.
  void GroupByExpert(size_t first_row, size_t num_rows) const;

  // The choices of an expert, as they are grouped.
  std::span<const size_t> ChoicesOf(size_t expert_idx) const {
    const size_t* begin = scratch_.group_begin + expert_idx;
    return {scratch_.grouped + begin[0], scratch_.grouped + begin[1]};
  }

  // Calls f(expert_idx, choices) -> Status for each that was chosen, in the
  // order of their index, so that a row's sum has the same order in every
  // batch.
  template <class Function>
  Status ForEachChosen(Function f) const {
    for (size_t e = 0; e < num_experts_; ++e) {
      if (const auto choices = ChoicesOf(e); !choices.empty()) {
        TC_RETURN_IF_ERROR(f(e, choices));
      }
    }
    return {};
  }

  // A call of one expert, with the inputs of its rows.
  FfnCall Gather(const FfnCall& call, std::span<const size_t> choices,
                 const compute::Rows& out) const;

  // Its outputs, added to what its rows have. A row has an expert at most once:
  // those that threads add to are different ones.
  void AddWeighted(const FfnCall& call, std::span<const size_t> choices,
                   const compute::Rows& from) const;

 protected:
  size_t num_experts_;
  size_t num_used_;
  const compute::Compute* compute_;
  const ExpertScratch& scratch_;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_EXPERT_ROWS_H_

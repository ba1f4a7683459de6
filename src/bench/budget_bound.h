// How near a token that reads from its file comes to the longer of computing
// and reading, each by itself.
#ifndef THERMOCLINE_BENCH_BUDGET_BOUND_H_
#define THERMOCLINE_BENCH_BUDGET_BOUND_H_

#include <optional>
#include <span>
#include <string>

#include "bench/budget_bench.h"

namespace thermocline::bench {

// P50 of the tokens whose reads were replayed.
struct TokenBound {
  double token_seconds = 0.0;
  double reads_seconds = 0.0;     // alone, all known from the start
  double in_turns_seconds = 0.0;  // alone, in turns as the run had them
  // With all in memory. Without such a row the run's own tokens, less the time
  // in which some thread waited for a read though others may have computed: not
  // more than what computing takes, so that `times` is not flattered.
  double compute_seconds = 0.0;
  const BudgetRow* in_memory = nullptr;  // whose time that is

  double seconds() const;
  double times() const { return token_seconds / seconds(); }
};

// Of a row of `all`; nothing where nothing was replayed. The fastest of rows
// that have everything in memory counts.
std::optional<TokenBound> BoundOf(const BudgetRow& row,
                                  std::span<const BudgetRow> all);

// Lines for people below the table, about what it cannot say; or nothing.
std::string DescribeBounds(std::span<const BudgetRow> rows);

}  // namespace thermocline::bench

#endif  // THERMOCLINE_BENCH_BUDGET_BOUND_H_

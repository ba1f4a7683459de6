// Plans for models larger than memory: which cores compute and which read, who
// stays in memory, and how fast that is. All that the engine could do is tried.
//
// PowerInfer-2 5.1, 5.3: maximises s under formulas 3 to 5. The paper's Z3 has
// nothing to search here: some hundred cases at most differ.
#ifndef THERMOCLINE_PLANNER_STORAGE_PLAN_H_
#define THERMOCLINE_PLANNER_STORAGE_PLAN_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/storage_cost.h"
#include "planner/storage_machine.h"

namespace thermocline::planner {

// What the user allows.
struct CoreLimits {
  std::vector<int> cpus;      // empty: all
  uint32_t most_threads = 0;  // that compute and read; 0: as many as there are
};

// One way to hold the model with so many threads: memory differs by them.
struct StorageCase {
  std::string policy;  // empty where nothing is chosen among
  std::string unit;
  uint64_t cache_bytes = 0;  // m: slots of what comes and goes
  uint64_t total_bytes = 0;  // of all memory
  StreamModel model;
  // P_miss(m), token by token. Asked once for each number of threads.
  std::function<Result<std::vector<TokenUse>>()> uses;
};
using CasesOf =
    std::function<Result<std::vector<StorageCase>>(uint32_t num_compute)>;

struct StoragePlan {
  std::vector<int> compute_cpus, io_cpus;  // ascending; none read alone: empty
  CoreShare cores;
  StorageCase chosen;
  StorageCost cost;
  uint64_t num_cases = 0;  // that were compared
};

// The fastest; of equally fast ones that with the fewest cores, then the first
// of its cases. Equal cores are interchangeable: the first of them compute, the
// last read. Errors of CheckMachine and of what is asked; kInvalidArgument: a
// CPU that the machine has not, with those it has; fewer threads than reading
// and computing need.
Result<StoragePlan> PlanStorage(const StorageMachine& machine,
                                const CoreLimits& limits,
                                const CasesOf& cases_of);

// What cores reach together; `compute` is not empty. (CHECKed)
CoreShare ShareOf(const StorageMachine& machine,
                  const std::vector<Core>& compute,
                  const std::vector<Core>& io);

// The least budget from `least` to `most` bytes, to `step` bytes, that
// seconds_of predicts at most `seconds` for; 0: not even `most`. Requires that
// more memory is never slower. Errors of seconds_of.
Result<uint64_t> LeastBudget(
    uint64_t least, uint64_t most, uint64_t step, double seconds,
    const std::function<Result<double>(uint64_t budget)>& seconds_of);

}  // namespace thermocline::planner

#endif  // THERMOCLINE_PLANNER_STORAGE_PLAN_H_

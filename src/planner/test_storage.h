// For tests: machines and models that are made up.
#ifndef THERMOCLINE_PLANNER_TEST_STORAGE_H_
#define THERMOCLINE_PLANNER_TEST_STORAGE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/random.h"
#include "planner/storage_plan.h"

namespace thermocline::planner {

// A phone as PowerInfer-2's: CPU 0 to 3 are slow, in computing and in reading,
// 4 to 7 fast; one that reads is best, more of them are in each other's way.
inline StorageMachine TestPhone() {
  StorageMachine machine = {.name = "a phone"};
  for (int cpu = 0; cpu < 8; ++cpu) {
    const bool is_fast = cpu >= 4;
    machine.cores.push_back({.cpu = cpu,
                             .row_rate = is_fast ? 8e9 : 2e9,
                             .prompt_rate = is_fast ? 80e9 : 20e9,
                             .read_share = is_fast ? 1.0 : 0.6});
  }
  machine.memory = {{1, 20e9}, {4, 40e9}, {8, 50e9}};
  for (const bool is_random : {false, true}) {
    for (const uint32_t depth : {1u, 8u, 32u}) {
      machine.reads.push_back({is_random, 4096, depth, 10e3 * depth});
      machine.reads.push_back({is_random, 1 << 20, depth, 500.0 * depth});
    }
  }
  machine.least_io_cores = 1;
  machine.most_io_cores = 3;
  machine.more_io_cores = {0.8, 0.6};
  return machine;
}

// Two layers and a head; a token uses 1000 units of each layer.
inline StreamModel TestStream() {
  StreamModel model;
  model.layers = {{.fixed_bytes = 8e6,
                   .used_bytes = 4096,
                   .all_bytes = 40e6,
                   .left_bytes = 30e6},
                  {.fixed_bytes = 8e6,
                   .used_bytes = 4096,
                   .all_bytes = 40e6,
                   .left_bytes = 30e6},
                  {.fixed_bytes = 16e6}};
  return model;
}

inline std::vector<TokenUse> TestUses(uint32_t num_missed,
                                      size_t num_tokens = 4) {
  const LayerUse use = {.num_used = 1000,
                        .num_missed = num_missed,
                        .num_reads = num_missed,
                        .read_bytes = uint64_t{num_missed} * 4096};
  return {num_tokens, TokenUse{use, use, {}}};
}

// More threads leave fewer slots.
inline CasesOf TestCases(uint32_t num_missed) {
  return
      [num_missed](uint32_t num_compute) -> Result<std::vector<StorageCase>> {
        std::vector<StorageCase> cases;
        for (const uint32_t worse : {0u, 30u}) {
          const uint32_t missed =
              num_missed == 0 ? 0 : num_missed + num_compute + worse;
          cases.push_back({.policy = worse == 0 ? "good" : "bad",
                           .unit = "records",
                           .cache_bytes = 1 << 20,
                           .model = TestStream(),
                           .uses = [missed]() -> Result<std::vector<TokenUse>> {
                             return TestUses(missed);
                           }});
        }
        return cases;
      };
}

}  // namespace thermocline::planner

#endif  // THERMOCLINE_PLANNER_TEST_STORAGE_H_

// What a plan for models larger than memory knows of a machine: its cores, its
// memory, and what its storage gives.
//
// PowerInfer-2 5.2, table 2: F_cpu(i), B_io(i, s), B_memory.
#ifndef THERMOCLINE_PLANNER_STORAGE_MACHINE_H_
#define THERMOCLINE_PLANNER_STORAGE_MACHINE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace thermocline::planner {

struct Core {
  int cpu = 0;
  double row_rate = 0.0;  // bytes of weights a second, of one row's products
  double prompt_rate =
      0.0;                  // the same times rows, where many share the weights
  double read_share = 1.0;  // of `reads` that it reaches when it submits them

  bool operator==(const Core&) const = default;
};

struct MemoryRate {
  uint32_t num_threads = 0;
  double bytes_per_s = 0.0;

  bool operator==(const MemoryRate&) const = default;
};

// Of blocks of one size, so many under way at once.
struct ReadRate {
  bool is_random = false;
  uint64_t block_bytes = 0;
  uint32_t depth = 0;
  double reads_per_s = 0.0;

  bool operator==(const ReadRate&) const = default;
};

struct StorageMachine {
  std::string name;  // equal where a plan may be used
  std::vector<Core> cores;
  std::vector<MemoryRate> memory;  // ascending by threads
  std::vector<ReadRate> reads;
  // Of a core's time, that submitting and reaping a read takes.
  double read_cpu_seconds = 0.0;
  uint32_t most_under_way = 64;
  // Cores that do nothing but read, at least and at most. 0: those that compute
  // read too.
  uint32_t least_io_cores = 0, most_io_cores = 0;
  // What 2, 3, ... of them reach of one's rate, the last of what more do;
  // PowerInfer-2's phones lose up to 40 %. Without any: all of it.
  std::vector<double> more_io_cores;

  bool operator==(const StorageMachine&) const = default;
};

// kInvalidArgument, named: no core, one CPU twice, a rate that is not positive,
// no reads of an order, or more I/O cores at least than at most.
Status CheckMachine(const StorageMachine& machine);

// Between what was measured, on logarithmic scales; beyond it, of larger blocks
// the bytes a second stay, of smaller ones and other depths the reads a second.
double ReadsPerSecond(const StorageMachine& machine, bool is_random,
                      double block_bytes, double depth);

// Of so many reads that are submitted together. 0 of none.
double ReadSeconds(const StorageMachine& machine, bool is_random,
                   double num_reads, double num_bytes);

// Of so many threads: between what was measured, on a line.
double MemoryBytesPerSecond(const StorageMachine& machine, uint32_t threads);

}  // namespace thermocline::planner

#endif  // THERMOCLINE_PLANNER_STORAGE_MACHINE_H_

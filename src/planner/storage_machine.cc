#include "planner/storage_machine.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace thermocline::planner {
namespace {

bool IsRate(double value) { return std::isfinite(value) && value > 0.0; }

Status CheckCores(const std::vector<Core>& cores) {
  std::set<int> cpus;
  for (const Core& core : cores) {
    if (!cpus.insert(core.cpu).second) {
      return Fail(ErrorCode::kInvalidArgument, "CPU {} is there twice",
                  core.cpu);
    }
    if (!IsRate(core.row_rate) || !IsRate(core.prompt_rate) ||
        !IsRate(core.read_share)) {
      return Fail(ErrorCode::kInvalidArgument,
                  "CPU {}: its rates are to be more than 0", core.cpu);
    }
  }
  if (!cores.empty()) return {};
  return Fail(ErrorCode::kInvalidArgument, "there is at least one core");
}

Status CheckReads(const std::vector<ReadRate>& reads) {
  for (const ReadRate& rate : reads) {
    if (rate.block_bytes > 0 && rate.depth > 0 && IsRate(rate.reads_per_s)) {
      continue;
    }
    return Fail(ErrorCode::kInvalidArgument,
                "reads of {} bytes, {} under way: size, number and rate are to "
                "be more than 0",
                rate.block_bytes, rate.depth);
  }
  for (const bool is_random : {false, true}) {
    if (std::ranges::find(reads, is_random, &ReadRate::is_random) !=
        reads.end()) {
      continue;
    }
    return Fail(ErrorCode::kInvalidArgument, "no rate of {} reads",
                is_random ? "random" : "sequential");
  }
  return {};
}

// Of values by ascending keys > 0.
using Curve = std::map<double, double>;

double Between(const Curve& curve, double key) {
  const auto above = curve.lower_bound(key);
  if (above == curve.begin()) return above->second;
  const auto below = std::prev(above);
  if (above == curve.end()) return below->second;
  const double part =
      std::log(key / below->first) / std::log(above->first / below->first);
  return below->second * std::pow(above->second / below->second, part);
}

}  // namespace

Status CheckMachine(const StorageMachine& machine) {
  TC_RETURN_IF_ERROR(CheckCores(machine.cores));
  TC_RETURN_IF_ERROR(CheckReads(machine.reads));
  for (const MemoryRate& rate : machine.memory) {
    if (rate.num_threads > 0 && IsRate(rate.bytes_per_s)) continue;
    return Fail(ErrorCode::kInvalidArgument,
                "memory of {} threads: number and rate are to be more than 0",
                rate.num_threads);
  }
  if (machine.memory.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "no rate of the memory");
  }
  for (const double share : machine.more_io_cores) {
    if (IsRate(share)) continue;
    return Fail(ErrorCode::kInvalidArgument,
                "what more I/O cores reach is to be more than 0");
  }
  if (!std::isfinite(machine.read_cpu_seconds) ||
      machine.read_cpu_seconds < 0.0 || machine.most_under_way == 0 ||
      machine.least_io_cores > machine.most_io_cores) {
    return Fail(ErrorCode::kInvalidArgument,
                "a read takes no less than no time of a core, one is under way "
                "at least, and the least I/O cores are no more than the most");
  }
  return {};
}

double ReadsPerSecond(const StorageMachine& machine, bool is_random,
                      double block_bytes, double depth) {
  std::map<double, Curve> by_depth;
  for (const ReadRate& rate : machine.reads) {
    if (rate.is_random != is_random) continue;
    by_depth[rate.depth][static_cast<double>(rate.block_bytes)] =
        rate.reads_per_s;
  }
  Curve at_size;
  for (const auto& [at_depth, curve] : by_depth) {
    double rate = Between(curve, block_bytes);
    const double largest = curve.rbegin()->first;
    if (block_bytes > largest) rate *= largest / block_bytes;
    at_size[at_depth] = rate;
  }
  return Between(at_size, depth);
}

double ReadSeconds(const StorageMachine& machine, bool is_random,
                   double num_reads, double num_bytes) {
  if (num_reads <= 0.0) return 0.0;
  const double depth =
      std::clamp(num_reads, 1.0, static_cast<double>(machine.most_under_way));
  return num_reads /
         ReadsPerSecond(machine, is_random, num_bytes / num_reads, depth);
}

double MemoryBytesPerSecond(const StorageMachine& machine, uint32_t threads) {
  const MemoryRate* below = nullptr;
  for (const MemoryRate& rate : machine.memory) {
    if (rate.num_threads >= threads) {
      if (below == nullptr || rate.num_threads == threads) {
        return rate.bytes_per_s;
      }
      const double part =
          static_cast<double>(threads - below->num_threads) /
          static_cast<double>(rate.num_threads - below->num_threads);
      return below->bytes_per_s +
             part * (rate.bytes_per_s - below->bytes_per_s);
    }
    below = &rate;
  }
  return below->bytes_per_s;
}

}  // namespace thermocline::planner

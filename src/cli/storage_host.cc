#include "cli/storage_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <map>
#include <vector>

#include "base/units.h"
#include "kernels/kernels.h"
#include "os/affinity.h"
#include "os/cpu_name.h"
#include "os/memory.h"
#include "os/topology.h"
#include "probe/memory.h"
#include "probe/product.h"
#include "probe/storage_rates.h"

namespace thermocline::cli {
namespace {

constexpr size_t kPromptRows = 64;
constexpr int kMemoryRounds = 3;
const std::vector<size_t> kDepths = {1, 8, 32, 64};
const std::vector<size_t> kBlocks = {4096, 16384, 65536, size_t{1} << 20};

// One hardware thread of each core.
std::vector<int> OnePerCore(const os::Topology& topology) {
  std::vector<int> cpus;
  for (size_t i = 0; std::cmp_less(i, topology.num_cores); ++i) {
    cpus.push_back(topology.cpus[i].id);
  }
  return cpus;
}

// What the kernel says of how fast a core is next to others; equal if nothing.
std::string KindOf(int cpu) {
  std::string kind;
  for (const char* file : {"cpu_capacity", "cpufreq/cpuinfo_max_freq"}) {
    std::ifstream in(
        fmt::format("/sys/devices/system/cpu/cpu{}/{}", cpu, file));
    std::string value;
    in >> value;
    kind += value + " ";
  }
  return kind;
}

double ProcessSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) +
         1e-9 * static_cast<double>(time.tv_nsec);
}

Result<planner::Core> MeasureCore(int cpu, const StorageHostOptions& options) {
  TC_ASSIGN_OR_RETURN(const os::OnCpus on,
                      os::OnCpus::Enter(std::vector<int>{cpu}));
  const kernels::KernelTable& table = kernels::KernelsFor(options.isa);
  TC_ASSIGN_OR_RETURN(const probe::ProductRate row,
                      probe::MeasureProduct(table, options.dtype, 1));
  TC_ASSIGN_OR_RETURN(const probe::ProductRate rows,
                      probe::MeasureProduct(table, options.dtype, kPromptRows));
  return planner::Core{
      .cpu = cpu,
      .row_rate = 1e9 * row.gb_per_s,
      .prompt_rate = 1e9 * rows.gb_per_s * static_cast<double>(kPromptRows)};
}

// Of 4 KiB, 8 under way: what a core of each kind submits.
Result<double> MeasureReading(int cpu, const StorageHostOptions& options) {
  TC_ASSIGN_OR_RETURN(const os::OnCpus on,
                      os::OnCpus::Enter(std::vector<int>{cpu}));
  TC_ASSIGN_OR_RETURN(
      const probe::StorageRates rates,
      probe::MeasureStorage(options.path, {.depths = {8},
                                           .block_bytes = {4096},
                                           .range_bytes = {},
                                           .seconds = options.seconds}));
  return rates.rates.back().reads_per_s();
}

// Cores of a kind are measured once.
Status AddCores(const StorageHostOptions& options,
                planner::StorageMachine& machine) {
  std::map<std::string, planner::Core> kinds;
  std::map<std::string, double> reading;
  const std::vector<int> cpus = OnePerCore(os::ReadTopology());
  for (const int cpu : cpus) {
    const std::string kind = KindOf(cpu);
    if (!kinds.contains(kind)) {
      TC_ASSIGN_OR_RETURN(kinds[kind], MeasureCore(cpu, options));
    }
    machine.cores.push_back(kinds[kind]);
    machine.cores.back().cpu = cpu;
  }
  if (kinds.size() == 1) return {};
  double best = 0.0;
  for (const int cpu : cpus) {
    const std::string kind = KindOf(cpu);
    if (reading.contains(kind)) continue;
    TC_ASSIGN_OR_RETURN(reading[kind], MeasureReading(cpu, options));
    best = std::max(best, reading[kind]);
  }
  for (planner::Core& core : machine.cores) {
    core.read_share = reading[KindOf(core.cpu)] / best;
  }
  return {};
}

Status AddMemory(const StorageHostOptions& options,
                 planner::StorageMachine& machine) {
  size_t num_bytes = options.memory_bytes;
  if (num_bytes == 0) {
    num_bytes = probe::ProbeSizeFor(probe::LastLevelCacheBytes(),
                                    os::ReadMemoryInfo().available_bytes, 0)
                    .num_bytes;
  }
  const auto most = static_cast<uint32_t>(machine.cores.size());
  for (uint32_t threads = 1; threads <= most;
       threads = threads == most ? most + 1 : std::min(2 * threads, most)) {
    TC_ASSIGN_OR_RETURN(
        probe::ReadProbe probe,
        probe::ReadProbe::Create(static_cast<int>(threads), num_bytes));
    TC_ASSIGN_OR_RETURN(const double rate, probe.Measure(kMemoryRounds));
    // Others who use the machine are no reason to plan for fewer threads.
    const double before =
        machine.memory.empty() ? 0.0 : machine.memory.back().bytes_per_s;
    machine.memory.push_back({threads, std::max(before, 1e9 * rate)});
  }
  return {};
}

Status AddReads(const StorageHostOptions& options,
                planner::StorageMachine& machine) {
  const double begin = ProcessSeconds();
  TC_ASSIGN_OR_RETURN(
      const probe::StorageRates rates,
      probe::MeasureStorage(options.path, {.depths = kDepths,
                                           .block_bytes = kBlocks,
                                           .range_bytes = {},
                                           .seconds = options.seconds,
                                           .progress = options.progress}));
  uint64_t num_reads = 0;
  for (const probe::StorageRate& rate : rates.rates) {
    num_reads += rate.num_reads;
    // Whoever may have more under way may have fewer.
    double least = 0.0;
    for (const planner::ReadRate& before : machine.reads) {
      if (before.is_random == rate.is_random &&
          before.block_bytes == rate.block_bytes) {
        least = std::max(least, before.reads_per_s);
      }
    }
    machine.reads.push_back(
        {.is_random = rate.is_random,
         .block_bytes = rate.block_bytes,
         .depth = static_cast<uint32_t>(rate.depth),
         .reads_per_s = std::max(least, rate.reads_per_s())});
  }
  machine.read_cpu_seconds =
      (ProcessSeconds() - begin) / static_cast<double>(num_reads);
  machine.most_under_way = static_cast<uint32_t>(kDepths.back());
  return {};
}

}  // namespace

std::string StorageHostName() {
  return fmt::format("{}, {}", os::ReadCpuName(),
                     Plural(os::ReadTopology().num_cores, "core"));
}

Result<planner::StorageMachine> MeasureStorageHost(
    const StorageHostOptions& options) {
  planner::StorageMachine machine = {.name = StorageHostName()};
  // What may be refused comes first.
  TC_RETURN_IF_ERROR(AddReads(options, machine));
  TC_RETURN_IF_ERROR(AddCores(options, machine));
  TC_RETURN_IF_ERROR(AddMemory(options, machine));
  return machine;
}

}  // namespace thermocline::cli

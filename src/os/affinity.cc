#include "os/affinity.h"

#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "os/topology.h"

namespace thermocline::os {
namespace {

struct FreeCpuSet {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};

// False, with errno, if the kernel refuses.
bool Bind(std::span<const int> cpus) {
  const int num_bits = *std::ranges::max_element(cpus) + 1;
  const std::unique_ptr<cpu_set_t, FreeCpuSet> set(CPU_ALLOC(num_bits));
  const size_t num_bytes = CPU_ALLOC_SIZE(num_bits);
  CPU_ZERO_S(num_bytes, set.get());
  for (const int cpu : cpus) CPU_SET_S(cpu, num_bytes, set.get());
  return sched_setaffinity(0, num_bytes, set.get()) == 0;
}

}  // namespace

Result<OnCpus> OnCpus::Enter(std::span<const int> cpus) {
  std::vector<int> before;
  for (const Cpu& cpu : ReadTopology().cpus) before.push_back(cpu.id);
  std::ranges::sort(before);
  for (const int cpu : cpus) {
    if (std::ranges::binary_search(before, cpu)) continue;
    return Fail(ErrorCode::kInvalidArgument,
                "CPU {} is none of those that this process may use: {}", cpu,
                fmt::join(before, ", "));
  }
  if (cpus.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "a thread runs on one CPU at least");
  }
  if (!Bind(cpus)) {
    return Fail(ErrorCode::kIo, "CPU {}: a thread cannot be bound to it: {}",
                fmt::join(cpus, ", "), std::strerror(errno));
  }
  return OnCpus(std::move(before));
}

OnCpus::OnCpus(OnCpus&& other) noexcept
    : before_(std::exchange(other.before_, {})) {}

OnCpus::~OnCpus() {
  if (!before_.empty()) (void)Bind(before_);
}

}  // namespace thermocline::os

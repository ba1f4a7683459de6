#include "cuda_on_host/control.h"

#include <mutex>
#include <utility>

#include "cuda_on_host/checker.h"
#include "cuda_on_host/device.h"
#include "cuda_on_host/fiber.h"
#include "cuda_on_host/run_state.h"

namespace thermocline::cuda_on_host {

void SetOptions(const Options& options) {
  std::lock_guard lock(Device::Get().mutex);
  run_state.options = options;
  run_state.dice.Seed(options.seed);
  run_state.stats = {};
  run_state.ordering_calls.clear();
  ClearTraffic();
}

std::string TakeFault() {
  std::lock_guard lock(Device::Get().mutex);
  return std::exchange(Device::Get().fault, {});
}

Stats GetStats() {
  std::lock_guard lock(Device::Get().mutex);
  Stats stats = run_state.stats;
  for (const auto& [place, dropped] : run_state.ordering_calls) {
    stats.ordering_calls.push_back(DescribePlace(place));
  }
  return stats;
}

Traffic GetTraffic(std::string_view kernel, const void* allocation) {
  std::lock_guard lock(Device::Get().mutex);
  return TrafficOf(kernel, allocation);
}

void FailCall(uint64_t n, int error) {
  std::lock_guard lock(Device::Get().mutex);
  Device::Get().num_calls = 0;
  Device::Get().failing_call = n;
  Device::Get().call_error = static_cast<cudaError_t>(error);
}

void ReviveDevice(uint64_t seed, bool lazy) {
  Device::Get().Revive(seed, lazy);
}

void UseReferenceSwitch(bool use) {
  std::lock_guard lock(Device::Get().mutex);
  // Their stacks are where the other switch would not find them.
  if (use != UsesReferenceContexts()) run_state.threads.clear();
  UseReferenceContexts(use);
}

}  // namespace thermocline::cuda_on_host

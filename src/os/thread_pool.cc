#include "os/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <system_error>
#include <thread>
#include <vector>

#include "os/topology.h"

namespace thermocline::os {
namespace {

constexpr size_t kCacheLine = 64;

inline void CpuRelax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until `value` differs from `old`, for about spin_us; then sleeps in the
// kernel until it does.
uint32_t AwaitChange(const std::atomic<uint32_t>& value, uint32_t old,
                     int spin_us) {
  using Clock = std::chrono::steady_clock;
  constexpr int kTriesPerClockRead = 64;
  const auto deadline = Clock::now() + std::chrono::microseconds(spin_us);
  do {
    for (int i = 0; i < kTriesPerClockRead; ++i) {
      const uint32_t now = value.load(std::memory_order_acquire);
      if (now != old) return now;
      CpuRelax();
    }
  } while (Clock::now() < deadline);
  value.wait(old);
  return value.load(std::memory_order_acquire);
}

void PinTo(std::thread& thread, int cpu_id) {
  if (cpu_id >= CPU_SETSIZE) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(cpu_id), &set);
  // Advice: where it is refused the thread runs anywhere.
  pthread_setaffinity_np(thread.native_handle(), sizeof(set), &set);
}

}  // namespace

// The fields that workers write are on cache lines of their own. Changes that
// someone may sleep on are sequentially consistent: the waker looks for
// sleepers after its change, the sleeper looks for a change after it has
// announced itself, and one of them must see the other.
struct ThreadPool::State {
  int spin_us = 0;
  std::vector<std::thread> threads;
  ErasedJob job = nullptr;  // null: leave
  void* argument = nullptr;
  alignas(kCacheLine) std::atomic<uint32_t> burst{0};
  alignas(kCacheLine) std::atomic<uint32_t> num_running{0};
  alignas(kCacheLine) std::atomic<size_t> next_elem{0};

  void Announce() {
    num_running.store(static_cast<uint32_t>(threads.size()));
    burst.fetch_add(1);
    burst.notify_all();
  }

  void Work(int worker_idx) {
    uint32_t seen = 0;
    while (true) {
      seen = AwaitChange(burst, seen, spin_us);
      if (job == nullptr) return;
      job(argument, worker_idx);
      if (num_running.fetch_sub(1) == 1) num_running.notify_one();
    }
  }

  void Join() {
    uint32_t running = num_running.load(std::memory_order_acquire);
    while (running != 0) running = AwaitChange(num_running, running, spin_us);
  }

  void Stop() {
    job = nullptr;
    Announce();
    for (std::thread& thread : threads) thread.join();
  }
};

ThreadPool::ThreadPool(std::unique_ptr<State> state)
    : state_(std::move(state)) {}

ThreadPool::~ThreadPool() { state_->Stop(); }

Result<std::unique_ptr<ThreadPool>> ThreadPool::Create(const Options& options) {
  if (options.num_threads < 0 || options.num_threads > kMaxThreads) {
    return Fail(ErrorCode::kInvalidArgument,
                "{} threads asked for; between 1 and {} can be had, or 0 for "
                "one per core",
                options.num_threads, kMaxThreads);
  }
  const Topology topology = ReadTopology();
  const int num_threads = options.num_threads > 0
                              ? options.num_threads
                              : std::min(topology.num_cores, kMaxThreads);
  auto state = std::make_unique<State>();
  // With more threads than CPUs a spinning one holds up another that has work.
  const bool crowded = static_cast<size_t>(num_threads) > topology.cpus.size();
  state->spin_us = crowded ? 0 : std::max(0, options.spin_us);
  // Workers never touch the vector, so it may grow while they wait.
  state->threads.reserve(static_cast<size_t>(num_threads - 1));
  for (int i = 1; i < num_threads; ++i) {
    try {
      state->threads.emplace_back([s = state.get(), i] { s->Work(i); });
    } catch (const std::system_error& error) {
      state->Stop();
      return Fail(ErrorCode::kIo, "cannot start thread {} of {}: {}", i + 1,
                  num_threads, error.code().message());
    }
    if (options.pin && static_cast<size_t>(i) < topology.cpus.size()) {
      PinTo(state->threads.back(), topology.cpus[static_cast<size_t>(i)].id);
    }
  }
  return std::unique_ptr<ThreadPool>(new ThreadPool(std::move(state)));
}

int ThreadPool::num_threads() const {
  return static_cast<int>(state_->threads.size()) + 1;
}

void ThreadPool::RunErased(ErasedJob job, void* argument) {
  if (!state_->threads.empty()) {
    state_->job = job;
    state_->argument = argument;
    state_->Announce();
  }
  job(argument, 0);
  state_->Join();
}

void ThreadPool::ResetCounter() {
  state_->next_elem.store(0, std::memory_order_relaxed);
}

size_t ThreadPool::TakeRange(size_t grain) {
  return state_->next_elem.fetch_add(grain, std::memory_order_relaxed);
}

}  // namespace thermocline::os

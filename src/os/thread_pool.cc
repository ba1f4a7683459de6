#include "os/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/math.h"
#include "os/cache_line.h"
#include "os/node_shares.h"
#include "os/start_thread.h"
#include "os/topology.h"

namespace thermocline::os {
namespace {

using Clock = std::chrono::steady_clock;

inline void CpuRelax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until is_done(value), for about spin_us; then sleeps in the kernel
// until it is. Whoever changes `value` to that must notify.
template <typename T, typename IsDone>
void Await(const std::atomic<T>& value, int spin_us, IsDone is_done) {
  constexpr int kTriesPerClockRead = 64;
  const auto deadline = Clock::now() + std::chrono::microseconds(spin_us);
  do {
    for (int i = 0; i < kTriesPerClockRead; ++i) {
      if (is_done(value.load(std::memory_order_acquire))) return;
      CpuRelax();
    }
  } while (Clock::now() < deadline);
  for (T now = value.load(); !is_done(now); now = value.load()) value.wait(now);
}

void PinTo(std::thread& thread, int cpu_id) {
  if (cpu_id < 0 || cpu_id >= CPU_SETSIZE) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(cpu_id), &set);
  // Advice: where it is refused the thread runs anywhere.
  pthread_setaffinity_np(thread.native_handle(), sizeof(set), &set);
}

// The way into a burst, in one word, so that a worker enters exactly the burst
// that it saw open: the number of workers that have entered, whether it is
// closed, the number of the burst. Burst numbers wrap after 2^21: a worker that
// the scheduler did not run for exactly as many bursts, 20 s at the shortest,
// would not see the next one. ParallelFor does without it then; Run, which
// measures and never comes in such numbers, would wait.
class Gate {
 public:
  static constexpr uint32_t kMaxEntered = (1u << 10) - 1;
  using Word = uint32_t;

  static uint32_t BurstOf(Word word) { return word / kNextBurst; }

  const std::atomic<Word>& word() const { return word_; }

  // By the caller, when the gate is closed. What it wrote before is visible to
  // those that enter.
  void Open() {
    const Word word = word_.load(std::memory_order_relaxed);
    word_.store((BurstOf(word) + 1) * kNextBurst);
    word_.notify_all();
  }

  // By the caller. Returns how many have entered; no one enters from now on.
  uint32_t Close() { return word_.fetch_or(kClosed) & kMaxEntered; }

  // By a worker. Sets `seen` to the burst that it entered or found closed.
  bool TryEnter(uint32_t& seen) {
    Word word = word_.load(std::memory_order_acquire);
    do {
      seen = BurstOf(word);
      if ((word & kClosed) != 0) return false;
    } while (!word_.compare_exchange_weak(word, word + 1));
    return true;
  }

 private:
  static constexpr Word kClosed = kMaxEntered + 1;
  static constexpr Word kNextBurst = 2 * kClosed;
  std::atomic<Word> word_{kClosed};
};
static_assert(Gate::kMaxEntered >= ThreadPool::kMaxThreads);

// A worker's part of the elements of a ParallelFor.
struct alignas(kCacheLine) Share {
  std::atomic<size_t> next{0};
  size_t end = 0;
};

// The shares of workers lie in the order of their nodes.
std::vector<size_t> PositionsByNode(const WorkerPlaces& places) {
  std::vector<size_t> next(places.first_workers.begin(),
                           places.first_workers.end() - 1);
  std::vector<size_t> positions;
  for (const size_t node : places.nodes) positions.push_back(next[node]++);
  return positions;
}

}  // namespace

// What a burst's workers do: a job, or the ranges of a ParallelFor.
struct ThreadPool::Burst {
  ErasedJob job = nullptr;  // with the argument of `callables`
  Callables callables = {};
  size_t grain = 0;

  // They leave the pool.
  bool is_last() const { return job == nullptr && callables.body == nullptr; }
};

// Between CPUs that share no cache a line takes a third of a microsecond to go
// over, as long as a worker's way into a burst has steps that wait for one. So
// what all of them read on that way lies in one line, with the gate, and lines
// to be written are asked for before they are needed.
//
// Changes that someone may sleep on are sequentially consistent: the waker
// looks for sleepers after its change, the sleeper looks for a change after it
// has announced itself, and one of them must see the other.
struct ThreadPool::State {
  int spin_us = 0;
  std::vector<std::thread> threads;
  WorkerPlaces places;
  PoolCounters counters;
  std::vector<Share> shares;      // in the order of nodes, as `positions` says
  std::vector<size_t> positions;  // per worker, of its own share

  alignas(kCacheLine) Gate gate;
  // The burst; written between bursts, read by those that have entered.
  Burst burst;
  static_assert(sizeof(Gate) + sizeof(Burst) <= kCacheLine);
  // Whether body may be called.
  alignas(kCacheLine) IsReady is_ready{true};
  // Workers that have left the burst, less those that the caller knows to have
  // entered: 0 when all of them are out.
  alignas(kCacheLine) std::atomic<int32_t> num_left{0};

  Share& ShareOf(int worker_idx) {
    return shares[positions[static_cast<size_t>(worker_idx)]];
  }

  void Work(int worker_idx) {
    uint32_t seen = 0;
    while (true) {
      Await(gate.word(), spin_us,
            [&](Gate::Word word) { return Gate::BurstOf(word) != seen; });
      PrefetchForWrite(&ShareOf(worker_idx));
      if (!gate.TryEnter(seen)) continue;
      if (burst.is_last()) return;
      TakePart(worker_idx);
      if (num_left.fetch_add(1) == -1) num_left.notify_one();
    }
  }

  void TakePart(int worker_idx) {
    if (burst.job != nullptr) {
      return burst.job(burst.callables.argument, worker_idx);
    }
    const size_t own = positions[static_cast<size_t>(worker_idx)];
    for (size_t i = 0; i < shares.size(); ++i) {
      const size_t position = (own + i) % shares.size();
      while (const auto range = TakeRange(position)) {
        AwaitFirst(*range);
        burst.callables.body(burst.callables.argument, range->begin, range->end,
                             worker_idx);
      }
    }
  }

  void AwaitFirst(const ElemRange& range) {
    if (is_ready.load(std::memory_order_acquire)) return;
    burst.callables.meanwhile(burst.callables.argument, range.begin, range.end,
                              is_ready);
    Await(is_ready, spin_us, [](bool ready) { return ready; });
  }

  void Start(const Burst& new_burst) {
    burst = new_burst;
    gate.Open();
  }

  void AwaitAll(uint32_t num_entered) {
    const auto num = static_cast<int32_t>(num_entered);
    if (num_left.fetch_sub(num) == num) return;
    const auto end = Clock::now();
    Await(num_left, spin_us, [](int32_t now) { return now == 0; });
    const std::chrono::nanoseconds waited = Clock::now() - end;
    counters.wait_ns += static_cast<uint64_t>(waited.count());
  }

  void Stop() {
    Start({});
    for (std::thread& thread : threads) thread.join();
  }

  std::optional<ElemRange> TakeRange(size_t position) {
    Share& share = shares[position];
    const size_t begin =
        share.next.fetch_add(burst.grain, std::memory_order_relaxed);
    if (begin >= share.end) return std::nullopt;
    return ElemRange{begin, std::min(begin + burst.grain, share.end)};
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
  const Topology topology =
      options.topology != nullptr ? *options.topology : ReadTopology();
  const int num_threads =
      options.num_threads > 0
          ? options.num_threads
          : std::min(topology.num_default_threads(), kMaxThreads);
  auto state = std::make_unique<State>();
  // With more threads than CPUs, or than a quota has room for, a spinning one
  // holds up another that has work.
  const bool crowded =
      static_cast<size_t>(num_threads) > topology.cpus.size() ||
      num_threads > topology.cpu_quota.value_or(num_threads);
  state->spin_us = crowded ? 0 : std::max(0, options.spin_us);
  state->places = PlaceWorkers(topology, num_threads, sched_getcpu());
  state->shares = std::vector<Share>(static_cast<size_t>(num_threads));
  state->positions = PositionsByNode(state->places);
  // Workers never touch the vector, so it may grow while they wait.
  state->threads.reserve(static_cast<size_t>(num_threads - 1));
  for (int i = 1; i < num_threads; ++i) {
    auto thread =
        StartThread(fmt::format("thread {} of {}", i + 1, num_threads),
                    [s = state.get(), i] { s->Work(i); });
    if (!thread.has_value()) {
      state->Stop();
      return tl::unexpected(std::move(thread).error());
    }
    state->threads.push_back(*std::move(thread));
    if (options.pin) {
      PinTo(state->threads.back(), state->places.cpus[static_cast<size_t>(i)]);
    }
  }
  return std::unique_ptr<ThreadPool>(new ThreadPool(std::move(state)));
}

int ThreadPool::num_threads() const {
  return static_cast<int>(state_->threads.size()) + 1;
}

std::span<const size_t> ThreadPool::first_workers() const {
  return state_->places.first_workers;
}

PoolCounters ThreadPool::counters() const { return state_->counters; }

void ThreadPool::RunErased(ErasedJob job, void* argument) {
  State& state = *state_;
  if (state.threads.empty()) return job(argument, 0);
  ++state.counters.num_joins;
  state.Start({.job = job, .callables = {.argument = argument}});
  job(argument, 0);
  state.AwaitAll(static_cast<uint32_t>(state.threads.size()));
  state.gate.Close();
}

void ThreadPool::ForErased(size_t n, size_t grain, const Callables& callables) {
  State& state = *state_;
  if (state.threads.empty()) {
    if (callables.first != nullptr) callables.first(callables.argument);
    for (size_t begin = 0; begin < n; begin += grain) {
      callables.body(callables.argument, begin, std::min(begin + grain, n), 0);
    }
    return;
  }
  for (const Share& share : state.shares) PrefetchForWrite(&share);
  PrefetchForWrite(&state.gate);
  const size_t num_shares = state.shares.size();
  const size_t num_ranges = CeilDiv(n, grain);
  for (size_t i = 0; i < num_shares; ++i) {
    Share& share = state.shares[i];
    share.next.store(num_ranges * i / num_shares * grain,
                     std::memory_order_relaxed);
    share.end = std::min(num_ranges * (i + 1) / num_shares * grain, n);
  }
  ++state.counters.num_joins;
  if (callables.first != nullptr) {
    state.is_ready.store(false, std::memory_order_relaxed);
  }
  state.Start({.callables = callables, .grain = grain});
  if (callables.first != nullptr) {
    callables.first(callables.argument);
    state.is_ready.store(true);
    state.is_ready.notify_all();
  }
  state.TakePart(0);
  PrefetchForWrite(&state.num_left);
  state.AwaitAll(state.gate.Close());
}

}  // namespace thermocline::os

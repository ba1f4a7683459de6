// Pinned worker threads for work that comes in short bursts.
#ifndef THERMOCLINE_OS_THREAD_POOL_H_
#define THERMOCLINE_OS_THREAD_POOL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

#include "base/check.h"
#include "base/status.h"
#include "os/topology.h"

namespace thermocline::os {

// What bursts cost the thread that called them.
struct PoolCounters {
  uint64_t num_joins = 0;  // bursts that other workers were called to
  uint64_t wait_ns = 0;    // spent waiting for others at the end of bursts
};

// Owns     num_threads - 1 threads; the caller of Run and ParallelFor is
//          worker 0.
// Threads  one burst at a time, always from the same thread or externally
//          synchronised; counters() likewise.
// Invariants
//   1. A burst returns after every worker that took part has returned from it
//      (acquire/release: what it wrote is visible to the caller).
//   2. No allocation after Create.
//   3. Between bursts workers spin for spin_us, then park: an idle pool burns
//      nothing. But for that time the workers of two pinned pools are in each
//      other's way: who computes in turns shares one.
class ThreadPool {
 public:
  struct Options {
    int num_threads = 0;  // 0: Topology::num_default_threads
    // Workers other than the caller stay on a core each (os/node_shares.h). The
    // caller counts to the NUMA node where it is at Create; its affinity is its
    // own affair and never touched.
    bool pin = true;
    int spin_us = 50;                    // not used with more threads than CPUs
    const Topology* topology = nullptr;  // null: this machine's
  };
  // kInvalidArgument: num_threads < 0 or > kMaxThreads. kResourceExhausted: no
  // more threads.
  static constexpr int kMaxThreads = 512;
  static Result<std::unique_ptr<ThreadPool>> Create(const Options& options);
  ~ThreadPool();  // joins

  int num_threads() const;

  // Numbers of workers on NUMA nodes, as NodeShare takes them.
  std::span<const size_t> first_workers() const;

  // Since Create.
  PoolCounters counters() const;

  // Calls job(worker_idx) once on every worker, worker_idx < num_threads():
  // waits for those that the scheduler has not run yet.
  // The job must not throw and not start a burst.
  template <typename Job>
  void Run(Job&& job) {
    RunErased(&InvokeJob<std::remove_reference_t<Job>>, Erase(job));
  }

  // Calls body(begin, end, worker_idx) for disjoint ranges that together make
  // [0, n), each from a multiple of `grain` and at most `grain` long. Every
  // worker has a contiguous share, whose ranges it takes in order: it reads
  // memory as one stream (0.82 of the read loop's speed, with ranges of 32 KiB
  // taken in turns 0.63). Then it helps the others. The shares of a NUMA node's
  // workers make NodeShare of the number of ranges. A worker that does not come
  // before all ranges are taken is not waited for. Requires grain > 0.
  // (CHECKed) As with Run, body must not throw and not start a burst.
  template <typename Body>
  void ParallelFor(size_t n, size_t grain, Body&& body) {
    TC_CHECK(grain > 0);
    if (n <= grain) {
      if (n > 0) body(size_t{0}, n, 0);
      return;
    }
    ForErased(n, grain,
              {.body = &InvokeBody<std::remove_reference_t<Body>>,
               .argument = Erase(body)});
  }

  // The same, where body needs what first() makes. The caller calls first()
  // when it has called the others. Those that have taken a range by then call
  //   meanwhile(begin, end, is_ready)
  // with it, which may do what needs nothing of first() and returns soon after
  // is_ready() is true; then they wait. None of the three may throw or start a
  // burst.
  template <typename Body, typename First, typename Meanwhile>
  void ParallelFor(size_t n, size_t grain, Body&& body, First&& first,
                   Meanwhile&& meanwhile) {
    TC_CHECK(grain > 0);
    if (n <= grain) {
      first();
      if (n > 0) body(size_t{0}, n, 0);
      return;
    }
    WithFirst<Body, First, Meanwhile> callables = {body, first, meanwhile};
    ForErased(n, grain,
              {.body = &callables.InvokeBody,
               .first = &callables.InvokeFirst,
               .meanwhile = &callables.InvokeMeanwhile,
               .argument = &callables});
  }

 private:
  using ErasedJob = void (*)(void* job, int worker_idx);
  using ErasedBody = void (*)(void* body, size_t begin, size_t end,
                              int worker_idx);
  using IsReady = std::atomic<bool>;
  // What a ParallelFor calls. Without `first` there is nothing to wait for.
  struct Callables {
    ErasedBody body = nullptr;
    void (*first)(void* argument) = nullptr;
    void (*meanwhile)(void* argument, size_t begin, size_t end,
                      const IsReady& is_ready) = nullptr;
    void* argument = nullptr;
  };
  // The invokers give constness back.
  template <typename Callable>
  static void* Erase(Callable& callable) {
    return const_cast<void*>(static_cast<const void*>(&callable));
  }
  template <typename Job>
  static void InvokeJob(void* job, int worker_idx) {
    (*static_cast<Job*>(job))(worker_idx);
  }
  template <typename Body>
  static void InvokeBody(void* body, size_t begin, size_t end, int worker_idx) {
    (*static_cast<Body*>(body))(begin, end, worker_idx);
  }
  template <typename Body, typename First, typename Meanwhile>
  struct WithFirst {
    Body& body;
    First& first;
    Meanwhile& meanwhile;

    static WithFirst& Of(void* argument) {
      return *static_cast<WithFirst*>(argument);
    }
    static void InvokeBody(void* argument, size_t begin, size_t end,
                           int worker_idx) {
      Of(argument).body(begin, end, worker_idx);
    }
    static void InvokeFirst(void* argument) { Of(argument).first(); }
    static void InvokeMeanwhile(void* argument, size_t begin, size_t end,
                                const IsReady& is_ready) {
      Of(argument).meanwhile(
          begin, end, [&] { return is_ready.load(std::memory_order_relaxed); });
    }
  };
  void RunErased(ErasedJob job, void* argument);
  void ForErased(size_t n, size_t grain, const Callables& callables);

  struct Burst;
  struct State;
  explicit ThreadPool(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace thermocline::os

#endif  // THERMOCLINE_OS_THREAD_POOL_H_

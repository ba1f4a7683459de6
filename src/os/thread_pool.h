// Pinned worker threads for work that comes in short bursts.
#ifndef THERMOCLINE_OS_THREAD_POOL_H_
#define THERMOCLINE_OS_THREAD_POOL_H_

#include <cstddef>
#include <memory>
#include <type_traits>

#include "base/check.h"
#include "base/status.h"

namespace thermocline::os {

// Owns     num_threads - 1 threads; the caller of Run is worker 0.
// Threads  one Run at a time, always from the same thread or externally
//          synchronised; the job runs on all workers.
// Invariants
//   1. Run returns after every worker returned from the job (acquire/release:
//      what the job wrote is visible to the caller).
//   2. No allocation after Create.
//   3. Between bursts workers spin for spin_us, then park: an idle pool burns
//      nothing.
class ThreadPool {
 public:
  struct Options {
    int num_threads = 0;  // 0: one per physical core this process may use
    bool pin = true;      // worker i > 0 to the i-th CPU of the topology
    int spin_us = 50;     // not used with more threads than CPUs
  };
  // kInvalidArgument: num_threads < 0 or > kMaxThreads. kIo: no more threads.
  static constexpr int kMaxThreads = 512;
  static Result<std::unique_ptr<ThreadPool>> Create(const Options& options);
  ~ThreadPool();  // joins

  int num_threads() const;

  // Calls job(worker_idx) once on every worker, worker_idx < num_threads().
  // The job must not throw and not call Run.
  template <typename Job>
  void Run(Job&& job) {
    RunErased(&Invoke<std::remove_reference_t<Job>>, &job);
  }

  // Calls body(begin, end, worker_idx) for disjoint ranges of at most `grain`
  // elements that together make [0, n); workers take ranges in order as they
  // become free. Requires grain > 0. (CHECKed)
  template <typename Body>
  void ParallelFor(size_t n, size_t grain, Body&& body) {
    TC_CHECK(grain > 0);
    if (n == 0) return;
    if (n <= grain || num_threads() == 1) {
      for (size_t begin = 0; begin < n; begin += grain) {
        body(begin, begin + grain < n ? begin + grain : n, 0);
      }
      return;
    }
    ResetCounter();
    Run([&](int worker_idx) {
      for (size_t begin = TakeRange(grain); begin < n;
           begin = TakeRange(grain)) {
        body(begin, begin + grain < n ? begin + grain : n, worker_idx);
      }
    });
  }

 private:
  using ErasedJob = void (*)(void* job, int worker_idx);
  template <typename Job>
  static void Invoke(void* job, int worker_idx) {
    (*static_cast<Job*>(job))(worker_idx);
  }
  void RunErased(ErasedJob job, void* argument);
  void ResetCounter();
  size_t TakeRange(size_t grain);  // the old counter; adds grain

  struct State;
  explicit ThreadPool(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace thermocline::os

#endif  // THERMOCLINE_OS_THREAD_POOL_H_

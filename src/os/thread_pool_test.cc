#include "os/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <numeric>
#include <thread>
#include <vector>

#include "os/topology.h"

namespace thermocline::os {
namespace {

std::unique_ptr<ThreadPool> MakePool(int num_threads, int spin_us = 50) {
  auto pool = ThreadPool::Create(
      {.num_threads = num_threads, .pin = true, .spin_us = spin_us});
  EXPECT_TRUE(pool.has_value());
  return std::move(pool).value();
}

TEST(ThreadPoolTest, BadCountsAreRefused) {
  for (const int n : {-1, ThreadPool::kMaxThreads + 1}) {
    const auto pool = ThreadPool::Create({.num_threads = n});
    ASSERT_FALSE(pool.has_value());
    EXPECT_EQ(pool.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(ThreadPoolTest, DefaultIsOneThreadPerCore) {
  const auto pool = MakePool(0);
  EXPECT_EQ(pool->num_threads(), ReadTopology().num_cores);
}

TEST(ThreadPoolTest, EveryWorkerRunsTheJobOnce) {
  for (const int n : {1, 2, 3, 8, 40}) {
    const auto pool = MakePool(n);
    ASSERT_EQ(pool->num_threads(), n);
    std::vector<int> num_calls(static_cast<size_t>(n), 0);
    std::vector<std::thread::id> ids(static_cast<size_t>(n));
    pool->Run([&](int worker_idx) {
      ++num_calls[static_cast<size_t>(worker_idx)];
      ids[static_cast<size_t>(worker_idx)] = std::this_thread::get_id();
    });
    EXPECT_EQ(num_calls, std::vector<int>(static_cast<size_t>(n), 1));
    EXPECT_EQ(ids[0], std::this_thread::get_id());
  }
}

// Short bursts back to back: the caller reads what workers wrote with plain
// stores, so that a missing edge shows under the thread sanitizer.
void CheckBursts(int num_threads, int spin_us, int num_bursts) {
  const auto pool = MakePool(num_threads, spin_us);
  std::vector<int64_t> sums(static_cast<size_t>(num_threads), 0);
  for (int burst = 0; burst < num_bursts; ++burst) {
    pool->Run([&](int w) { sums[static_cast<size_t>(w)] += burst; });
    ASSERT_EQ(sums.front(), sums.back());
  }
  for (const int64_t sum : sums) {
    EXPECT_EQ(sum, int64_t{num_bursts} * (num_bursts - 1) / 2);
  }
}

TEST(ThreadPoolTest, ManyBursts) { CheckBursts(2, 50, 100'000); }
TEST(ThreadPoolTest, ManyBurstsOfManyThreads) { CheckBursts(5, 50, 10'000); }

// Without spinning every burst goes through sleeping and waking.
TEST(ThreadPoolTest, ManyBurstsThroughTheKernel) { CheckBursts(2, 0, 20'000); }

TEST(ThreadPoolTest, ParallelForCoversEveryElementOnce) {
  for (const int num_threads : {1, 2, 5}) {
    const auto pool = MakePool(num_threads);
    for (const size_t n : {0, 1, 2, 7, 64, 1000, 1001}) {
      for (const size_t grain : {1, 3, 64, 5000}) {
        std::vector<int> num_visits(n, 0);
        pool->ParallelFor(n, grain, [&](size_t begin, size_t end, int worker) {
          EXPECT_LT(begin, end);
          EXPECT_LE(end - begin, grain);
          EXPECT_EQ(begin % grain, 0u);
          EXPECT_LT(worker, num_threads);
          for (size_t i = begin; i < end; ++i) ++num_visits[i];
        });
        EXPECT_EQ(num_visits, std::vector<int>(n, 1));
      }
    }
  }
}

// A worker that is stuck in one range does not hold up the others: the rest of
// the ranges is done by the caller.
TEST(ThreadPoolTest, RangesGoToWhoeverIsFree) {
  const auto pool = MakePool(2);
  constexpr size_t kRanges = 100;
  std::atomic<size_t> num_by_caller{0};
  std::atomic<bool> helper_has_one{false};
  pool->ParallelFor(kRanges, 1, [&](size_t, size_t, int worker_idx) {
    if (worker_idx == 1) {
      helper_has_one = true;
      while (num_by_caller < kRanges - 1) std::this_thread::yield();
    } else {
      // The first range waits until the helper is stuck in another.
      while (!helper_has_one) std::this_thread::yield();
      ++num_by_caller;
    }
  });
  EXPECT_EQ(num_by_caller, kRanges - 1);
}

TEST(ThreadPoolTest, PoolsComeAndGo) {
  for (int i = 0; i < 200; ++i) {
    const auto pool = MakePool(3, i % 2 == 0 ? 50 : 0);
    std::atomic<int> num_calls{0};
    if (i % 3 != 0) pool->Run([&](int) { ++num_calls; });
    EXPECT_EQ(num_calls, i % 3 != 0 ? 3 : 0);
  }
}

TEST(ThreadPoolTest, WorkersArePinnedAndTheCallerIsNot) {
  const Topology topology = ReadTopology();
  const auto num_threads =
      std::min<int>(4, static_cast<int>(topology.cpus.size()));
  const auto pool = MakePool(num_threads);
  std::vector<int> num_cpus(static_cast<size_t>(num_threads));
  std::vector<int> first_cpu(static_cast<size_t>(num_threads));
  pool->Run([&](int worker_idx) {
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof(set), &set);
    const auto w = static_cast<size_t>(worker_idx);
    num_cpus[w] = CPU_COUNT(&set);
    while (!CPU_ISSET(static_cast<size_t>(first_cpu[w]), &set)) ++first_cpu[w];
  });
  EXPECT_EQ(num_cpus[0], static_cast<int>(topology.cpus.size()));
  for (size_t i = 1; i < num_cpus.size(); ++i) {
    EXPECT_EQ(num_cpus[i], 1);
    EXPECT_EQ(first_cpu[i], topology.cpus[i].id);
  }
}

// CPU time, not wall time: a pool that spins for ever would use several times
// the slept time, a parked one next to nothing.
TEST(ThreadPoolTest, AnIdlePoolParks) {
  const auto pool = MakePool(4);
  pool->Run([](int) {});
  const auto cpu_seconds = [] {
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * now.tv_nsec;
  };
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  EXPECT_LT(cpu_seconds() - before, 0.2);
  int num_calls[4] = {};
  pool->Run([&](int worker_idx) { ++num_calls[worker_idx]; });
  EXPECT_EQ(num_calls[3], 1);
}

TEST(ThreadPoolDeathTest, ZeroGrainIsCaught) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        const auto pool = MakePool(1);
        pool->ParallelFor(5, 0, [](size_t, size_t, int) {});
      },
      "check failed");
}

}  // namespace
}  // namespace thermocline::os

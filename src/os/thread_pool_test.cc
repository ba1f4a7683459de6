#include "os/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <numeric>
#include <thread>
#include <vector>

#include "base/random.h"
#include "os/node_shares.h"
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
  EXPECT_EQ(pool->num_threads(), ReadTopology().num_default_threads());
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

TEST(ThreadPoolTest, ManyBursts) { CheckBursts(2, 50, 20'000); }
TEST(ThreadPoolTest, ManyBurstsOfManyThreads) { CheckBursts(5, 50, 2'000); }

// Without spinning every burst goes through sleeping and waking.
TEST(ThreadPoolTest, ManyBurstsThroughTheKernel) { CheckBursts(2, 0, 5'000); }

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
  for (size_t i = 1; i < num_cpus.size(); ++i) EXPECT_EQ(num_cpus[i], 1);
  std::sort(first_cpu.begin() + 1, first_cpu.end());
  EXPECT_EQ(std::adjacent_find(first_cpu.begin() + 1, first_cpu.end()),
            first_cpu.end());
}

// Node i has the CPUs of 4 i to 4 i + 3. They need not exist.
Topology TwoNodes() {
  Topology topology{.cpus = {}, .num_cores = 8, .num_numa_nodes = 2};
  for (int id = 0; id < 8; ++id) {
    topology.cpus.push_back(
        {.id = id, .core = id, .package = 0, .numa_node = id / 4});
  }
  return topology;
}

TEST(ThreadPoolTest, NodesHaveSharesAndHelpEachOther) {
  const Topology topology = TwoNodes();
  const auto pool = ThreadPool::Create(
      {.num_threads = 4, .pin = false, .topology = &topology});
  ASSERT_TRUE(pool.has_value());
  const auto first_workers = (*pool)->first_workers();
  ASSERT_EQ(std::vector(first_workers.begin(), first_workers.end()),
            (std::vector<size_t>{0, 2, 4}));
  for (const size_t n : {2, 3, 50, 1001}) {
    for (const size_t grain : {1, 3, 64}) {
      std::vector<int> num_visits(n, 0);
      (*pool)->ParallelFor(n, grain, [&](size_t begin, size_t end, int) {
        EXPECT_EQ(begin % grain, 0u);
        EXPECT_LE(end - begin, grain);
        for (size_t i = begin; i < end; ++i) ++num_visits[i];
      });
      EXPECT_EQ(num_visits, std::vector<int>(n, 1));
    }
  }

  // All workers hold their first range at once: two of each node's share.
  constexpr size_t kRanges = 10;
  const size_t border = NodeShare(kRanges, 0, first_workers).end;
  EXPECT_EQ(border, 5u);
  std::atomic<int> num_here{0};
  std::atomic<int> num_below_border{0};
  std::atomic<int> has_come[4] = {};
  (*pool)->ParallelFor(kRanges, 1, [&](size_t begin, size_t, int worker_idx) {
    if (has_come[worker_idx]++ > 0) return;
    if (begin < border) ++num_below_border;
    ++num_here;
    while (num_here < 4) std::this_thread::yield();
  });
  EXPECT_EQ(num_below_border, 2);
}

// Workers that do not come before the work is done are not waited for: with
// threads that outnumber the CPUs by far, most of them.
TEST(ThreadPoolTest, OnlyThoseThatComeAreWaitedFor) {
  constexpr size_t kThreads = 20;
  const auto pool = MakePool(kThreads);
  Random random(7);
  std::vector<uint64_t> delays(4 * kThreads);
  for (int burst = 0; burst < 3000; ++burst) {
    const size_t n = random.Below(5);
    for (uint64_t& delay : delays) delay = random.Below(2000);
    // On the stack of this burst: who came late to it would write over others.
    std::vector<int> num_visits(n, 0);
    pool->ParallelFor(n, 1, [&](size_t begin, size_t, int worker_idx) {
      const uint64_t delay =
          delays[begin * kThreads + static_cast<size_t>(worker_idx)];
      std::atomic<uint64_t> spin{0};
      while (spin < delay) ++spin;
      ++num_visits[begin];
    });
    ASSERT_EQ(num_visits, std::vector<int>(n, 1)) << burst;
  }
}

// What first() makes is there for every range, whoever takes it: plain stores,
// so that a missing edge shows under the thread sanitizer.
void CheckFirst(int num_threads, int spin_us) {
  const auto pool = MakePool(num_threads, spin_us);
  for (int burst = 0; burst < 1000; ++burst) {
    const size_t n = static_cast<size_t>(burst) % 7;
    const size_t grain = 1 + static_cast<size_t>(burst) % 2;
    int made = -1;
    std::vector<int> seen(n, -1);
    std::atomic<int> num_meanwhile{0};
    pool->ParallelFor(
        n, grain,
        [&](size_t begin, size_t end, int) {
          for (size_t i = begin; i < end; ++i) seen[i] = made;
        },
        [&] { made = burst; },
        [&](size_t begin, size_t end, auto&& is_ready) {
          EXPECT_LT(begin, end);
          EXPECT_LE(end, n);
          while (!is_ready()) std::this_thread::yield();
          ++num_meanwhile;
        });
    ASSERT_EQ(made, burst);
    ASSERT_EQ(seen, std::vector<int>(n, burst));
    ASSERT_LT(num_meanwhile, num_threads);
    // The next burst waits for nothing.
    pool->ParallelFor(n, 1, [&](size_t i, size_t, int) { ++seen[i]; });
    ASSERT_EQ(seen, std::vector<int>(n, burst + 1));
  }
}

TEST(ThreadPoolTest, RangesWaitForWhatTheCallerMakesFirst) {
  for (const int num_threads : {1, 2, 5}) CheckFirst(num_threads, 50);
}
TEST(ThreadPoolTest, RangesWaitForWhatTheCallerMakesFirstAsleep) {
  CheckFirst(2, 0);
}

// Others hold all ranges there are, and the caller, for which none is left,
// makes what they wait for.
TEST(ThreadPoolTest, OthersAreBusyWhileTheCallerIs) {
  const auto pool = MakePool(3);
  std::atomic<int> num_waiting{0};
  bool is_made = false;
  std::atomic<int> num_done{0};
  pool->ParallelFor(
      2, 1,
      [&](size_t, size_t, int) {
        EXPECT_TRUE(is_made);
        ++num_done;
      },
      [&] {
        while (num_waiting < 2) std::this_thread::yield();
        is_made = true;
      },
      [&](size_t, size_t, auto&& is_ready) {
        EXPECT_FALSE(is_ready());
        ++num_waiting;
      });
  EXPECT_EQ(num_done, 2);
}

TEST(ThreadPoolTest, RunAndParallelForTakeTurns) {
  const auto pool = MakePool(3);
  for (int burst = 0; burst < 2000; ++burst) {
    std::vector<int> num_visits(4, 0);
    const auto visit = [&](size_t i, size_t, int) { ++num_visits[i]; };
    pool->ParallelFor(4, 1, visit);
    ASSERT_EQ(num_visits, std::vector<int>(4, 1));
    std::vector<int> num_calls(3, 0);
    pool->Run([&](int w) { ++num_calls[static_cast<size_t>(w)]; });
    ASSERT_EQ(num_calls, std::vector<int>(3, 1));
  }
}

TEST(ThreadPoolTest, CountersCountWhatOthersAreCalledTo) {
  const auto alone = MakePool(1);
  alone->Run([](int) {});
  alone->ParallelFor(9, 1, [](size_t, size_t, int) {});
  EXPECT_EQ(alone->counters().num_joins, 0u);
  EXPECT_EQ(alone->counters().wait_ns, 0u);

  const auto pool = MakePool(2);
  pool->ParallelFor(0, 4, [](size_t, size_t, int) {});
  pool->ParallelFor(4, 4, [](size_t, size_t, int) {});
  EXPECT_EQ(pool->counters().num_joins, 0u);
  pool->ParallelFor(5, 4, [](size_t, size_t, int) {});
  EXPECT_EQ(pool->counters().num_joins, 1u);
  const uint64_t wait_before_ns = pool->counters().wait_ns;
  pool->Run([](int worker_idx) {
    if (worker_idx == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  EXPECT_EQ(pool->counters().num_joins, 2u);
  EXPECT_GT(pool->counters().wait_ns - wait_before_ns, 1'000'000u);
}

// CPU time, not wall time: a pool that spins for ever would use several times
// the slept time, a parked one next to nothing. The second time is after a wait
// that was long enough for nobody to spin.
TEST(ThreadPoolTest, AnIdlePoolParks) {
  const auto pool = MakePool(4);
  const auto cpu_seconds = [] {
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * now.tv_nsec;
  };
  for (const int wait_ms : {0, 5}) {
    pool->Run([&](int worker_idx) {
      if (worker_idx == 1) {
        std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
      }
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const double before = cpu_seconds();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_LT(cpu_seconds() - before, 0.01);
  }
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

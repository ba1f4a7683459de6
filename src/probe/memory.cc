#include "probe/memory.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <numeric>
#include <span>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "os/file.h"
#include "os/memory.h"
#include "os/thread_pool.h"

namespace thermocline::probe {
namespace {

constexpr size_t kLineWords = 8;  // 64 bytes
constexpr int kMaxCacheIndex = 16;

// Independent accumulators, so that additions never wait for each other and
// the loop runs as fast as loads arrive. Sums modulo 2^64.
uint64_t SumWords(std::span<const uint64_t> words) {
  uint64_t sums[4 * kLineWords] = {};
  size_t i = 0;
  for (; i + std::size(sums) <= words.size(); i += std::size(sums)) {
    for (size_t j = 0; j < std::size(sums); ++j) sums[j] += words[i + j];
  }
  for (; i < words.size(); ++i) sums[0] += words[i];
  return std::accumulate(std::begin(sums), std::end(sums), uint64_t{0});
}

// Worker `idx`'s share, whole cache lines (the last one's end may be odd).
std::span<uint64_t> ShareOf(std::span<uint64_t> words, int idx,
                            int num_threads) {
  const size_t num_lines = words.size() / kLineWords;
  const auto begin_of = [&](int worker) {
    if (worker == num_threads) return words.size();
    return num_lines * static_cast<size_t>(worker) /
           static_cast<size_t>(num_threads) * kLineWords;
  };
  return words.subspan(begin_of(idx), begin_of(idx + 1) - begin_of(idx));
}

// Returns the sum of what it wrote.
uint64_t FillWords(std::span<uint64_t> words, uint64_t seed) {
  Random random(seed);
  uint64_t sum = 0;
  for (uint64_t& word : words) sum += (word = random.Next());
  return sum;
}

// One line of a sysfs file; empty if it cannot be read.
std::string ReadLine(const std::string& path) {
  Result<std::string> text = os::ReadFile(path, 4096);
  if (!text.has_value()) return {};
  return text->substr(0, text->find('\n'));
}

// "260M", "32768K", "512": as the kernel writes cache sizes.
uint64_t ParseCacheSize(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return 0;
  const std::string_view unit = text.substr(end - text.data());
  const int shift = unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : 0;
  return value > (UINT64_MAX >> shift) ? 0 : value << shift;
}

}  // namespace

Result<ReadRate> MeasureSequentialRead(int num_threads, size_t num_bytes,
                                       int num_rounds) {
  if (num_rounds < 1 || num_bytes < sizeof(uint64_t)) {
    return Fail(ErrorCode::kInvalidArgument,
                "read probe: {} rounds over {} bytes measure nothing",
                num_rounds, num_bytes);
  }
  TC_ASSIGN_OR_RETURN(auto pool,
                      os::ThreadPool::Create({.num_threads = num_threads}));
  TC_ASSIGN_OR_RETURN(os::AlignedBuffer buffer,
                      os::AlignedBuffer::Allocate(num_bytes));
  const std::span<uint64_t> words =
      buffer.as<uint64_t>(num_bytes / sizeof(uint64_t));
  const int pool_threads = pool->num_threads();

  // One cache line per worker: neighbours do not fight over it.
  struct alignas(64) Slot {
    uint64_t expected = 0;
    uint64_t sum = 0;
  };
  std::vector<Slot> slots(static_cast<size_t>(pool_threads));
  // Each share is first touched by the thread that will read it, so that it
  // lies in that thread's NUMA node.
  pool->Run([&](int idx) {
    slots[static_cast<size_t>(idx)].expected = FillWords(
        ShareOf(words, idx, pool_threads), static_cast<uint64_t>(idx));
  });

  std::vector<double> rates;
  for (int round = 0; round <= num_rounds; ++round) {
    Stopwatch watch;
    pool->Run([&](int idx) {
      slots[static_cast<size_t>(idx)].sum =
          SumWords(ShareOf(words, idx, pool_threads));
    });
    const double seconds = std::max(watch.Seconds(), 1e-9);
    for (const Slot& slot : slots) {
      if (slot.sum != slot.expected) {
        return Fail(ErrorCode::kCorrupt,
                    "read probe: memory gave another sum than was written; "
                    "the machine's memory is faulty");
      }
    }
    if (round > 0) {  // the first one warms up
      rates.push_back(static_cast<double>(words.size_bytes()) / seconds / 1e9);
    }
  }
  std::sort(rates.begin(), rates.end());
  return ReadRate{.gb_per_s_best = rates.back(),
                  .gb_per_s_median = rates[rates.size() / 2]};
}

uint64_t LastLevelCacheBytes(const std::string& sys_root) {
  // Level -> its instances, told apart by the CPUs that share them.
  std::map<std::string, std::map<std::string, uint64_t>> levels;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(
           sys_root + "/devices/system/cpu", error)) {
    for (int idx = 0; idx < kMaxCacheIndex; ++idx) {
      const std::string dir =
          fmt::format("{}/cache/index{}/", entry.path().string(), idx);
      const std::string level = ReadLine(dir + "level");
      if (level.empty()) break;
      if (ReadLine(dir + "type") == "Instruction") continue;
      levels[level][ReadLine(dir + "shared_cpu_list")] =
          ParseCacheSize(ReadLine(dir + "size"));
    }
  }
  if (levels.empty()) return 0;
  uint64_t total = 0;
  for (const auto& [cpus, size] : levels.rbegin()->second) total += size;
  return total;
}

}  // namespace thermocline::probe

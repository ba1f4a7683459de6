#include "probe/memory.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <map>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "base/random.h"
#include "kernels/cpu/ahead.h"
#include "os/file.h"
#include "probe/line.h"

namespace thermocline::probe {
namespace {

constexpr int kMaxCacheIndex = 16;

// Four streams per thread, each prefetched a KiB ahead: more loads are under
// way than the hardware prefetcher of one stream keeps, and even 16-byte loads
// then come as fast as memory gives. They begin at different places of their
// pages: side by side in them they are a twentieth slower (Intel).
constexpr size_t kStreams = 4;
constexpr size_t kLinesAhead = 16;
constexpr size_t kPageLines = 64;
constexpr size_t kLinesApart = 24;
// Prefetched ahead of that, into the second level of the cache, in a second
// way to read: a quarter faster than the first on an Intel Xeon.
constexpr size_t kLinesFarAhead = 32;

// The lines of each of kStreams parts, of num_lines together.
size_t StreamLines(size_t num_lines) {
  const size_t lines = num_lines / kStreams;
  if (lines < 2 * kPageLines) return lines;
  return (lines / kPageLines - 1) * kPageLines + kLinesApart;
}

// The sum of all words modulo 2^64. An accumulator per stream, so that
// additions never wait for each other. Inlined into code for several ISAs.
template <bool kPrefetchesFar>
[[gnu::always_inline]] inline uint64_t SumStreams(const uint64_t* words,
                                                  size_t num_words) {
  const size_t stream_lines = StreamLines(num_words / kLineWords);
  Line sums[kStreams] = {};
  for (size_t i = 0; i < stream_lines; ++i) {
    for (size_t s = 0; s < kStreams; ++s) {
      const uint64_t* at = words + (s * stream_lines + i) * kLineWords;
      const auto address = reinterpret_cast<uintptr_t>(at);
      if constexpr (kPrefetchesFar) {
        kernels::PrefetchLine<2>(address + kLinesFarAhead * sizeof(Line));
      }
      kernels::PrefetchLine<3>(address + kLinesAhead * sizeof(Line));
      Line line;
      __builtin_memcpy(&line, at, sizeof(line));
      sums[s] += line;
    }
  }
  const Line all = sums[0] + sums[1] + sums[2] + sums[3];
  uint64_t sum = 0;
  for (size_t i = 0; i < kLineWords; ++i) sum += all[i];
  for (size_t i = stream_lines * kStreams * kLineWords; i < num_words; ++i) {
    sum += words[i];
  }
  return sum;
}

template <bool kPrefetchesFar>
uint64_t SumPortably(const uint64_t* words, size_t num_words) {
  return SumStreams<kPrefetchesFar>(words, num_words);
}

using SumFn = uint64_t (*)(const uint64_t* words, size_t num_words);
// Which of them is faster depends on the CPU.
using SumFns = std::array<SumFn, 2>;
constexpr SumFns kPortable = {SumPortably<false>, SumPortably<true>};

#if defined(__x86_64__)
// A whole line per load: some 5 % above 16 bytes. With 32 there is no gain.
template <bool kPrefetchesFar>
[[gnu::target("avx512f")]] uint64_t SumAvx512(const uint64_t* words,
                                              size_t num_words) {
  return SumStreams<kPrefetchesFar>(words, num_words);
}

SumFns BestSums() {
  if (!__builtin_cpu_supports("avx512f")) return kPortable;
  return {SumAvx512<false>, SumAvx512<true>};
}
#else
SumFns BestSums() { return kPortable; }
#endif

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

ReadProbe::ReadProbe(std::unique_ptr<os::ThreadPool> pool,
                     os::AlignedBuffer buffer, size_t num_words)
    : pool_(std::move(pool)),
      buffer_(std::move(buffer)),
      words_(buffer_.as<uint64_t>(num_words)),
      sums_(static_cast<size_t>(pool_->num_threads())) {
  // Each share is first touched by the thread that will read it, so that it
  // lies in that thread's NUMA node.
  pool_->Run([&](int idx) {
    sums_[static_cast<size_t>(idx)].written = FillWords(
        ShareOf(words_, idx, num_threads()), static_cast<uint64_t>(idx));
  });
}

Result<ReadProbe> ReadProbe::Create(int num_threads, size_t num_bytes) {
  TC_ASSIGN_OR_RETURN(auto pool,
                      os::ThreadPool::Create({.num_threads = num_threads}));
  const size_t num_words = num_bytes / sizeof(uint64_t);
  if (num_words < static_cast<size_t>(pool->num_threads())) {
    return Fail(ErrorCode::kInvalidArgument,
                "read probe: {} threads have nothing to read in {} bytes",
                pool->num_threads(), num_bytes);
  }
  auto buffer = os::AlignedBuffer::Allocate(num_bytes);
  if (!buffer.has_value()) return Annotate("read probe", buffer.error());
  return ReadProbe(std::move(pool), *std::move(buffer), num_words);
}

std::span<const uint64_t> ReadProbe::Share(int worker_idx) const {
  return ShareOf(words_, worker_idx, num_threads());
}

Status ReadProbe::CheckRounds(int num_rounds) const {
  if (num_rounds >= 1) return {};
  return Fail(ErrorCode::kInvalidArgument,
              "read probe: {} rounds measure nothing", num_rounds);
}

Status ReadProbe::CheckSums() const {
  if (std::ranges::all_of(sums_,
                          [](const Sums& s) { return s.read == s.written; })) {
    return {};
  }
  return Fail(ErrorCode::kCorrupt,
              "read probe: memory gave another sum than was written; the "
              "machine's memory is faulty");
}

Result<double> ReadProbe::Measure(int num_rounds) {
  TC_RETURN_IF_ERROR(CheckRounds(num_rounds));
  const SumFns sums = BestSums();
  double best = 0.0;
  for (int round = 0; round < num_rounds; ++round) {
    for (const SumFn sum : sums) {
      Stopwatch watch;
      pool_->Run([&](int idx) {
        const std::span<const uint64_t> share = Share(idx);
        sums_[static_cast<size_t>(idx)].read = sum(share.data(), share.size());
      });
      const double seconds = std::max(watch.Seconds(), 1e-9);
      TC_RETURN_IF_ERROR(CheckSums());
      best = std::max(best, static_cast<double>(num_bytes()) / seconds / 1e9);
    }
  }
  return best;
}

Result<double> ReadProbe::MeasureRowsApart(size_t row_bytes, int num_rounds) {
  TC_RETURN_IF_ERROR(CheckRounds(num_rounds));
  TC_ASSIGN_OR_RETURN(const size_t num_read, BytesOfRows(row_bytes));
  double best = 0.0;
  for (int round = 0; round < num_rounds; ++round) {
    for (const RowPrefetch prefetching :
         {RowPrefetch::kFirstLevel, RowPrefetch::kSecondLevel,
          RowPrefetch::kNotAtAll}) {
      const double seconds =
          ReadRowsApart(row_bytes / sizeof(uint64_t), prefetching);
      TC_RETURN_IF_ERROR(CheckSums());
      best = std::max(best, static_cast<double>(num_read) / seconds / 1e9);
    }
  }
  return best;
}

Result<size_t> ReadProbe::BytesOfRows(size_t row_bytes) const {
  if (row_bytes == 0 || row_bytes % (kLineWords * sizeof(uint64_t)) != 0) {
    return Fail(ErrorCode::kInvalidArgument,
                "read probe: rows of {} bytes; they are read by lines of 64",
                row_bytes);
  }
  size_t num_words = 0;
  for (int i = 0; i < num_threads(); ++i) {
    const size_t of_share =
        WordsOfRows(Share(i).size(), row_bytes / sizeof(uint64_t));
    if (of_share == 0) {
      return Fail(ErrorCode::kInvalidArgument,
                  "read probe: {} bytes are too few for {} threads to read "
                  "rows of {} apart",
                  num_bytes(), num_threads(), row_bytes);
    }
    num_words += of_share;
  }
  return num_words * sizeof(uint64_t);
}

double ReadProbe::ReadRowsApart(size_t row_words, RowPrefetch prefetching) {
  Stopwatch watch;
  pool_->Run([&](int idx) {
    uint64_t sum = 0;
    for (size_t pass = 0; pass < kRowsPerRead; ++pass) {
      sum += SumRowsApart(Share(idx), row_words, pass, prefetching);
    }
    sums_[static_cast<size_t>(idx)].read = sum;
  });
  const double seconds = std::max(watch.Seconds(), 1e-9);
  for (int i = 0; i < num_threads(); ++i) {  // what no row has
    const std::span<const uint64_t> share = Share(i);
    uint64_t& sum = sums_[static_cast<size_t>(i)].read;
    for (const uint64_t word :
         share.subspan(WordsOfRows(share.size(), row_words))) {
      sum += word;
    }
  }
  return seconds;
}

ProbeSize ProbeSizeFor(uint64_t cache_bytes, uint64_t available_bytes,
                       uint64_t working_set) {
  constexpr uint64_t kMinBytes = uint64_t{256} << 20;
  constexpr uint64_t kUnknownCacheBytes = uint64_t{128} << 20;
  if (cache_bytes == 0) cache_bytes = kUnknownCacheBytes;
  const uint64_t wanted = std::max(
      std::clamp(working_set, 2 * cache_bytes, 8 * cache_bytes), kMinBytes);
  // Some even where nothing is said to be available.
  const uint64_t cap = std::max<uint64_t>(available_bytes / 4, 1 << 20);
  return {.num_bytes = std::min(wanted, cap), .is_capped = cap < wanted};
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

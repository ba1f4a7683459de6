#include "probe/storage_rates.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "base/clock.h"
#include "base/random.h"
#include "os/affinity.h"
#include "os/memory.h"
#include "storage/block_reader.h"

namespace thermocline::probe {
namespace {

using storage::BlockReader;
using storage::Done;
using storage::Read;

Status CheckPoints(const StorageRatesOptions& options) {
  const auto is_empty = [](const std::vector<size_t>& values) {
    return values.empty() || std::ranges::find(values, 0u) != values.end();
  };
  if (is_empty(options.depths) || is_empty(options.block_bytes)) {
    return Fail(ErrorCode::kInvalidArgument,
                "storage is measured with blocks and depths of at least 1");
  }
  return {};
}

// The rows of one depth.
std::vector<StorageRate> PlanRows(const StorageRatesOptions& options,
                                  uint64_t file_bytes, size_t depth) {
  std::vector<uint64_t> ranges;
  for (const uint64_t bytes : options.range_bytes) {
    if (bytes > 0 && bytes <= file_bytes) ranges.push_back(bytes);
  }
  if (ranges.empty()) ranges.push_back(file_bytes);
  std::ranges::sort(ranges);
  const uint64_t whole = ranges.back();
  ranges.pop_back();  // the least block's row of it is one of all blocks'
  std::vector<StorageRate> rows;
  for (const bool is_random : {false, true}) {
    for (const size_t block_bytes : options.block_bytes) {
      rows.push_back({is_random, whole, block_bytes, depth});
    }
  }
  for (const uint64_t range_bytes : ranges) {
    const size_t least = std::ranges::min(options.block_bytes);
    if (least > range_bytes) continue;
    rows.push_back({true, range_bytes, least, depth});
  }
  return rows;
}

// Advice: where it is refused the cache may help.
void DropCached(const std::string& path) {
  auto file = os::OpenForReading(path, os::PipePolicy::kNoWait);
  if (!file.has_value()) return;
  (void)posix_fadvise(file->get(), 0, 0, POSIX_FADV_DONTNEED);
}

// Keeps `depth` reads under way, each to its own place in memory.
class Run {
 public:
  Run(BlockReader& reader, std::span<std::byte> memory, const StorageRate& row,
      uint64_t seed)
      : reader_(reader),
        memory_(memory),
        row_(row),
        random_(seed),
        begun_(row.depth),
        done_(row.depth) {}

  Status Measure(double seconds, StorageRate& rate) {
    std::vector<size_t> idle(row_.depth);
    std::iota(idle.begin(), idle.end(), size_t{0});
    bool ends = false;
    while (!ends) {
      Submit(idle);
      idle.clear();
      const size_t num = reader_.Reap(done_, true);
      const double now = watch_.Seconds();
      for (const Done& done : std::span(done_).first(num)) {
        TC_RETURN_IF_ERROR(done.status);
        microseconds_.push_back(
            static_cast<float>(1e6 * (now - begun_[done.tag])));
        idle.push_back(done.tag);
      }
      ends = now >= seconds;
    }
    rate = row_;
    rate.seconds = watch_.Seconds();
    Summarize(rate);
    while (reader_.Reap(done_, true) > 0) {
    }
    return {};
  }

 private:
  void Submit(const std::vector<size_t>& places) {
    reads_.clear();
    for (const size_t place : places) {
      reads_.push_back({.offset = NextOffset(),
                        .num_bytes = row_.block_bytes,
                        .to = memory_.data() + place * row_.block_bytes,
                        .tag = place});
      begun_[place] = watch_.Seconds();
    }
    reader_.Submit(reads_);
  }

  uint64_t NextOffset() {
    const uint64_t num_blocks = row_.range_bytes / row_.block_bytes;
    const uint64_t block =
        row_.is_random ? random_.Below(num_blocks) : num_begun_++ % num_blocks;
    return block * row_.block_bytes;
  }

  void Summarize(StorageRate& rate) {
    std::ranges::sort(microseconds_);
    const size_t num = microseconds_.size();
    rate.num_reads = num;
    rate.mean_us =
        std::accumulate(microseconds_.begin(), microseconds_.end(), 0.0) /
        static_cast<double>(num);
    rate.p50_us = microseconds_[num / 2];
    rate.p99_us = microseconds_[num * 99 / 100];
  }

  BlockReader& reader_;
  const std::span<std::byte> memory_;
  const StorageRate row_;
  Random random_;
  Stopwatch watch_;
  uint64_t num_begun_ = 0;
  std::vector<double> begun_;  // by place
  std::vector<Done> done_;
  std::vector<Read> reads_;
  std::vector<float> microseconds_;
};

Result<std::unique_ptr<BlockReader>> Open(const std::string& path,
                                          const StorageRatesOptions& options,
                                          size_t depth) {
  if (options.reader.empty()) {
    return storage::OpenReader({path}, {.depth = depth});
  }
  return storage::OpenReaderNamed(options.reader, {path}, {.depth = depth});
}

Result<std::optional<os::OnCpus>> StayOn(std::optional<int> cpu) {
  std::optional<os::OnCpus> on;
  if (!cpu) return on;
  TC_ASSIGN_OR_RETURN(os::OnCpus entered,
                      os::OnCpus::Enter(std::vector<int>{*cpu}));
  on.emplace(std::move(entered));
  return on;
}

}  // namespace

Result<StorageRates> MeasureStorage(const std::string& path,
                                    const StorageRatesOptions& options) {
  TC_RETURN_IF_ERROR(CheckPoints(options));
  TC_ASSIGN_OR_RETURN(const std::optional<os::OnCpus> on, StayOn(options.cpu));
  const size_t largest = std::ranges::max(options.block_bytes);
  const size_t deepest = std::ranges::max(options.depths);
  TC_ASSIGN_OR_RETURN(os::AlignedBuffer memory,
                      os::AlignedBuffer::Allocate(largest * deepest));
  // Pages that are not there yet would be made while reads wait for them.
  std::memset(memory.data(), 1, memory.size());
  DropCached(path);
  StorageRates rates;
  size_t num_done = 0;
  for (const size_t depth : options.depths) {
    TC_ASSIGN_OR_RETURN(const auto reader, Open(path, options, depth));
    const std::span<std::byte> all(memory.data(), memory.size());
    if (options.registered) reader->RegisterMemory({&all, 1});
    rates.reader =
        options.registered ? reader->Describe() : std::string(reader->name());
    rates.alignment = reader->alignment();
    rates.file_bytes = reader->file_bytes(0);
    if (rates.file_bytes < largest) {
      return Fail(ErrorCode::kInvalidArgument,
                  "{}: has {} bytes, less than one block of {}", path,
                  rates.file_bytes, largest);
    }
    const auto rows = PlanRows(options, rates.file_bytes, depth);
    for (const StorageRate& row : rows) {
      ReportProgress(options.progress, "reading", num_done++,
                     rows.size() * options.depths.size());
      if (!rates.is_direct()) DropCached(path);
      Run run(*reader, all, row, options.seed + num_done);
      TC_RETURN_IF_ERROR(
          run.Measure(options.seconds, rates.rates.emplace_back()));
    }
  }
  return rates;
}

}  // namespace thermocline::probe

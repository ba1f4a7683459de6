#include "engine/stream/read_rates.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

#include "base/random.h"

namespace thermocline::engine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kProbedDepths[] = {8, 32, 64};
constexpr size_t kManyBytes = 128 << 10;
// Each rate is the best of some short rounds: what else runs only slows down.
constexpr int kProbedRounds = 3;
constexpr auto kProbedTime = std::chrono::microseconds(1500);  // of a round

class ReadProbe {
 public:
  ReadProbe(storage::BlockReader& reader, const gguf::FileSpan& span,
            std::span<std::byte> memory)
      : reader_(reader), span_(span), memory_(memory) {}

  // reads_per_s 0: one failed.
  ReadRate Measure(size_t num_bytes, size_t depth) {
    num_bytes_ = num_bytes;
    for (size_t slot = 0; slot < depth; ++slot) Submit(slot);
    const Clock::time_point begin = Clock::now();
    size_t num_open = depth, num_done = 0;
    bool all_right = true;
    double seconds = 0.0;
    while (num_open > 0) {
      std::array<storage::Done, 32> done;
      const size_t count = reader_.Reap(done, /*waits=*/true);
      const auto passed = Clock::now() - begin;
      num_open -= count;
      for (const storage::Done& read : std::span(done).first(count)) {
        all_right &= read.status.has_value();
        if (passed >= kProbedTime || !all_right) continue;
        Submit(read.tag);
        ++num_open;
      }
      if (seconds > 0.0) continue;
      num_done += count;
      if (passed >= kProbedTime) {
        seconds = std::chrono::duration<double>(passed).count();
      }
    }
    const bool is_right = all_right && seconds > 0.0;
    return {num_bytes, depth,
            is_right ? static_cast<double>(num_done) / seconds : 0.0};
  }

 private:
  void Submit(size_t slot) {
    const uint64_t num_places = span_.num_bytes / num_bytes_;
    const storage::Read read = {
        .file_idx = span_.shard_idx,
        .offset = span_.offset + random_.Below(num_places) * num_bytes_,
        .num_bytes = num_bytes_,
        .to = memory_.data() + slot * num_bytes_,
        .tag = slot};
    reader_.Submit({&read, 1});
  }

  storage::BlockReader& reader_;
  gguf::FileSpan span_;
  std::span<std::byte> memory_;
  Random random_{1};
  size_t num_bytes_ = 0;
};

}  // namespace

std::vector<ReadRate> MeasureReads(storage::BlockReader& reader,
                                   const gguf::FileSpan& span,
                                   size_t part_bytes, size_t record_bytes,
                                   std::span<std::byte> memory) {
  std::vector<size_t> sizes = {part_bytes, record_bytes, kManyBytes};
  std::ranges::sort(sizes);
  sizes.erase(std::ranges::unique(sizes).begin(), sizes.end());
  ReadProbe probe(reader, span, memory);
  std::vector<ReadRate> rates;
  for (const size_t num_bytes : sizes) {
    for (const size_t depth : kProbedDepths) {
      if (num_bytes * depth > memory.size() || num_bytes > span.num_bytes) {
        continue;
      }
      rates.push_back({num_bytes, depth, 0.0});
    }
  }
  for (int round = 0; round < kProbedRounds; ++round) {
    for (ReadRate& rate : rates) {
      const double now = probe.Measure(rate.num_bytes, rate.depth).reads_per_s;
      rate.reads_per_s = std::max(rate.reads_per_s, now);
    }
  }
  std::erase_if(rates, [](const ReadRate& r) { return r.reads_per_s <= 0.0; });
  return rates;
}

}  // namespace thermocline::engine

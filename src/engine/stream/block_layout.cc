#include "engine/stream/block_layout.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/math.h"

namespace thermocline::engine {
namespace {

uint64_t RoundDown(uint64_t value) { return value - value % kBlockAlignment; }

}  // namespace

uint64_t BlockLayout::read_bytes() const {
  uint64_t sum = 0;
  for (const BlockRead& read : reads) sum += read.num_bytes;
  return sum;
}

BlockLayout LayBlock(std::span<const gguf::FileSpan> spans,
                     std::span<const uint64_t> file_bytes) {
  std::vector<size_t> order(spans.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) {
    return std::pair(spans[i].shard_idx, spans[i].offset);
  });
  BlockLayout layout = {.span_offsets = std::vector<size_t>(spans.size())};
  for (const size_t i : order) {
    const gguf::FileSpan& span = spans[i];
    const uint64_t begin = RoundDown(span.offset);
    const uint64_t end = std::min<uint64_t>(
        RoundUp(span.offset + span.num_bytes, uint64_t{kBlockAlignment}),
        file_bytes[span.shard_idx]);
    BlockRead* last = layout.reads.empty() ? nullptr : &layout.reads.back();
    if (last == nullptr || last->shard_idx != span.shard_idx ||
        begin > last->offset + last->num_bytes) {
      layout.reads.push_back({.shard_idx = span.shard_idx,
                              .offset = begin,
                              .num_bytes = 0,
                              .slot_offset = layout.num_bytes});
      last = &layout.reads.back();
    }
    last->num_bytes = std::max<size_t>(last->num_bytes, end - last->offset);
    layout.num_bytes =
        last->slot_offset + RoundUp(last->num_bytes, size_t{kBlockAlignment});
    layout.span_offsets[i] = last->slot_offset + (span.offset - last->offset);
  }
  return layout;
}

size_t AppendReads(const BlockLayout& layout, std::byte* slot,
                   size_t most_bytes, uint64_t first_tag,
                   std::vector<storage::Read>& reads) {
  TC_DCHECK(most_bytes > 0 && most_bytes % kBlockAlignment == 0);
  size_t count = 0;
  for (const BlockRead& read : layout.reads) {
    for (size_t done = 0; done < read.num_bytes; done += most_bytes) {
      reads.push_back({.file_idx = read.shard_idx,
                       .offset = read.offset + done,
                       .num_bytes = std::min(most_bytes, read.num_bytes - done),
                       .to = slot + read.slot_offset + done,
                       .tag = first_tag + count++});
    }
  }
  return count;
}

uint64_t BlockPlan::num_slots() const {
  return std::accumulate(resident.begin(), resident.end(),
                         uint64_t{pass_slots});
}

}  // namespace thermocline::engine

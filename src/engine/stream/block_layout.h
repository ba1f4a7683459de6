// Blocks: parts of a model that come and go as one, an expert or a layer. Each
// is a few spans of the file, and lies in one slot.
#ifndef THERMOCLINE_ENGINE_STREAM_BLOCK_LAYOUT_H_
#define THERMOCLINE_ENGINE_STREAM_BLOCK_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gguf/gguf.h"
#include "storage/block_reader.h"

namespace thermocline::engine {

// What slots and reads are multiples of, so that reads go past the page cache
// straight to where they belong.
inline constexpr size_t kBlockAlignment = 4096;

// One read, of one span or of several that follow each other in the file.
struct BlockRead {
  uint32_t shard_idx = 0;
  uint64_t offset = 0;     // in the file: a multiple of kBlockAlignment
  size_t num_bytes = 0;    // likewise, but at the file's end
  size_t slot_offset = 0;  // likewise
};

struct BlockLayout {
  std::vector<size_t> span_offsets;  // where each span's bytes lie in a slot
  std::vector<BlockRead> reads;
  size_t num_bytes = 0;  // of a slot; a multiple of kBlockAlignment
  uint64_t read_bytes() const;
};

// Of spans that are read together; file_bytes: of each shard. Spans that touch,
// or lie less than kBlockAlignment apart, become one read.
BlockLayout LayBlock(std::span<const gguf::FileSpan> spans,
                     std::span<const uint64_t> file_bytes);

// The reads of a block to `slot`, in pieces of at most most_bytes (a multiple
// of kBlockAlignment), each with tag `first_tag` + its number; added to
// `reads`. Returns how many.
size_t AppendReads(const BlockLayout& layout, std::byte* slot,
                   size_t most_bytes, uint64_t first_tag,
                   std::vector<storage::Read>& reads);

// How memory for blocks is cut into slots of one size.
struct BlockPlan {
  size_t slot_bytes = 0;
  uint32_t pass_slots = 0;         // of all layers: blocks come and go
  std::vector<uint32_t> resident;  // experts: [L] slots that a layer has too

  uint64_t num_slots() const;
  uint64_t num_bytes() const { return num_slots() * slot_bytes; }
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_STREAM_BLOCK_LAYOUT_H_

// Who computes the neurons of a layer: the host, or a device.
#ifndef THERMOCLINE_BENCH_OP_SUBJECT_H_
#define THERMOCLINE_BENCH_OP_SUBJECT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/status.h"

namespace thermocline::bench {

struct OpFacts {
  std::string name;  // "host", "cuda0"
  std::string card;  // "NVIDIA GeForce RTX 4090"; empty: the host
  // Reads of its memory, measured in the same run or a machine file's; nullopt:
  // not known, or in_cache.
  std::optional<double> roof_gb_per_s;
  bool is_stated = false;  // the roof is the machine file's, and so are times
  bool in_cache = false;  // the copies are less than twice what its cache holds
  size_t num_copies = 0;  // of the layer's records, which are read in turns
  uint64_t num_bytes = 0;  // that its weights take
};

// Each call reads the copy of the layer that was read longest ago.
class OpSubject {
 public:
  virtual ~OpSubject() = default;
  virtual const OpFacts& facts() const = 0;

  // Seconds of plain products with all neurons, of one row.
  virtual Result<double> Dense() = 0;
  // Seconds of the listed neurons, by their records, ascending; rows beyond
  // OpLayer::kRows in groups of so many, one after the other.
  virtual Result<double> Sparse(std::span<const uint32_t> ids,
                                size_t num_rows) = 0;
  // What the last call gave for input `row`, of those it had; empty where
  // nothing is computed but times.
  virtual std::span<const float> out(size_t row) const = 0;

  // What the weights of a call come to at least; of a neuron's record as it
  // lies there.
  virtual uint64_t dense_bytes() const = 0;
  virtual uint64_t neuron_bytes() const = 0;
};

// How many copies of a layer do not fit the cache together.
struct OpCopies {
  size_t records = 1;   // of the layer as records
  size_t matrices = 1;  // and as matrices
  bool in_cache = false;

  static constexpr size_t kMost = 64;

  size_t total() const { return records + matrices; }
};

// matrices_share: one copy as matrices for so many as records. Requires room
// for one of each.
inline OpCopies CopiesFor(uint64_t layer_bytes, uint64_t cache_bytes,
                          uint64_t most_bytes, size_t matrices_share) {
  const uint64_t wanted = (2 * cache_bytes + layer_bytes - 1) / layer_bytes;
  OpCopies copies;
  while (copies.records < std::min<uint64_t>(wanted, OpCopies::kMost)) {
    OpCopies more = {.records = copies.records + 1};
    more.matrices = (more.records + matrices_share - 1) / matrices_share;
    if (more.total() * layer_bytes > most_bytes) break;
    copies = more;
  }
  copies.in_cache = copies.records < wanted;
  return copies;
}

}  // namespace thermocline::bench

#endif  // THERMOCLINE_BENCH_OP_SUBJECT_H_

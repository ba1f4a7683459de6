// How records that stay in their file come to memory.
#ifndef THERMOCLINE_ENGINE_STREAM_STREAM_OPTIONS_H_
#define THERMOCLINE_ENGINE_STREAM_STREAM_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/stream/block_layout.h"
#include "engine/stream/slot_arena.h"
#include "model/config.h"
#include "storage/block_reader.h"

namespace thermocline::engine {

// Makes the reader of a model's files.
using OpenRecordReader =
    std::function<Result<std::unique_ptr<storage::BlockReader>>(
        const std::vector<std::string>& paths)>;

// What comes and goes as one.
enum class StreamUnit : uint8_t {
  kRecords,  // neurons of a prepared model
  kExperts,  // of a mixture
  kLayers,   // the matrices of a layer of any other model
};
StreamUnit UnitOf(const model::Config& config);

// The policy of a name, or the best if it is empty.
std::string_view PolicyOf(std::string_view name);

// What of a model stays in its file.
struct LeftWeights {
  StreamUnit unit = StreamUnit::kRecords;
  size_t block_bytes = 0;  // of the largest expert or layer, in its slot
  size_t num_layers = 0;   // kLayers: that stay
};

struct StreamOptions {
  StreamUnit unit = StreamUnit::kRecords;
  ArenaPlan arena;        // kRecords
  BlockPlan blocks;       // kExperts, kLayers
  std::string policy;     // of residency::Policies(); empty: the best
  OpenRecordReader open;  // empty: storage::OpenReader
};

// What has been read so far, of passes of each phase; a pass with rows of both
// counts as a prompt's.
struct StreamTotals {
  struct OfPhase {
    uint64_t num_rows = 0;
    uint64_t num_wanted = 0;  // records that layers asked for
    uint64_t num_missed = 0;  // of them, those that were not in memory
    uint64_t num_bytes = 0;   // read
    uint64_t num_reads = 0;
  };
  OfPhase prompt, generated;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_STREAM_STREAM_OPTIONS_H_

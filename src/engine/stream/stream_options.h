// How records that stay in their file come to memory.
#ifndef THERMOCLINE_ENGINE_STREAM_STREAM_OPTIONS_H_
#define THERMOCLINE_ENGINE_STREAM_STREAM_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/stream/block_layout.h"
#include "engine/stream/read_plan.h"
#include "engine/stream/slot_arena.h"
#include "engine/stream/storage_mode.h"
#include "model/config.h"
#include "residency/policy.h"
#include "storage/block_reader.h"
#include "storage/read_log.h"

namespace thermocline::engine {

// Makes the reader of a model's files.
using OpenRecordReader =
    std::function<Result<std::unique_ptr<storage::BlockReader>>(
        const std::vector<std::string>& paths)>;

// Makes the policy that a spec names: residency::MakePolicy, or another.
using MakeResidencyPolicy =
    std::function<Result<std::unique_ptr<residency::Policy>>(
        std::string_view spec, const std::vector<residency::LayerExtent>&)>;

// What comes and goes as one.
enum class StreamUnit : uint8_t {
  kRecords,  // neurons of a prepared model
  kExperts,  // of a mixture
  kLayers,   // the matrices of a layer of any other model
};
StreamUnit UnitOf(const model::Config& config);
std::string_view NameOf(StreamUnit unit);  // "records", "experts", "layers"

// The policy of a name, or the best of a mode if it is empty.
std::string_view PolicyOf(std::string_view name,
                          StorageMode mode = StorageMode::kCluster);

// Says in the log that a policy of that name changes nothing where layers
// stream; nothing without a name.
void TellOfPolicy(std::string_view name);

// What slots may take of what a budget leaves: beside what is planned a program
// has a vocabulary, threads, a heap, huge pages that are not full, and where
// records are not padded to blocks a reader's memory, which nobody counts.
uint64_t RoomForSlots(uint64_t room, const model::Config& config);

// What of a model stays in its file.
struct LeftWeights {
  StreamUnit unit = StreamUnit::kRecords;
  size_t block_bytes = 0;  // of the largest expert or layer, in its slot
  size_t num_layers = 0;   // kLayers: that stay
};

struct StreamOptions {
  StreamUnit unit = StreamUnit::kRecords;
  // kRecords of a mixture: or kExperts, for which slots are planned too. Reads
  // are measured, and decide (PlanToChooseBy).
  bool or_experts = false;
  bool has_candidates = false;  // kRecords: predictors name them
  ArenaPlan arena;              // kRecords
  BlockPlan blocks;             // kExperts, kLayers
  std::string policy;  // for residency::MakePolicy; empty: the mode's best
  bool deterministic = false;  // LiveOptions', as the next
  std::optional<uint64_t> moves_per_token;
  MakeResidencyPolicy make_policy = residency::MakePolicy;
  OpenRecordReader open;                     // empty: storage::OpenReader
  StorageMode mode = StorageMode::kCluster;  // kRecords; not kMmap
  // kRecords: nothing: what measuring says, or with `open` the default.
  std::optional<ReadPlan> reads;
  std::shared_ptr<storage::ReadLog> log;  // notes what is read; null: none
};

// What has been read so far, of passes of each phase; a pass with rows of both
// counts as a prompt's.
struct StreamTotals {
  struct OfPhase {
    uint64_t num_rows = 0;
    uint64_t num_wanted = 0;  // records or blocks that layers asked for
    uint64_t num_missed = 0;  // of them, those that were not in memory
    uint64_t num_bytes = 0;   // read
    uint64_t num_reads = 0;
    // Experts: wanted where guesses went ahead; of them, those that were
    // guessed; and guesses that were read and not used.
    uint64_t num_foreseeable = 0;
    uint64_t num_foreseen = 0;
    uint64_t num_vain = 0;
    // Records: of those that were not in memory, those read a layer early, and
    // how many of them were asked for; the others were read in vain.
    uint64_t num_early = 0;
    uint64_t num_early_used = 0;
    // What a policy did, as residency::Tally has it. A hit was the policy's
    // when the layer asked for it, wherever it was; one that it has, but that
    // did not come yet, was missed all the same.
    uint64_t num_hits = 0;
    uint64_t num_admissions = 0;
    uint64_t num_moves = 0;       // that it proposed
    uint64_t num_wasted = 0;      // of both, left before they were used again
    uint64_t num_move_bytes = 0;  // of num_bytes, those of moves

    // Those of a pass, counted from `before` to `now`; num_rows aside.
    void AddSince(const OfPhase& before, const OfPhase& now) {
      num_wanted += now.num_wanted - before.num_wanted;
      num_missed += now.num_missed - before.num_missed;
      num_bytes += now.num_bytes - before.num_bytes;
      num_reads += now.num_reads - before.num_reads;
      num_foreseeable += now.num_foreseeable - before.num_foreseeable;
      num_foreseen += now.num_foreseen - before.num_foreseen;
      num_vain += now.num_vain - before.num_vain;
      num_early += now.num_early - before.num_early;
      num_early_used += now.num_early_used - before.num_early_used;
      num_hits += now.num_hits - before.num_hits;
      num_admissions += now.num_admissions - before.num_admissions;
      num_moves += now.num_moves - before.num_moves;
      num_wasted += now.num_wasted - before.num_wasted;
      num_move_bytes += now.num_move_bytes - before.num_move_bytes;
    }
    bool operator==(const OfPhase&) const = default;
  };
  StreamUnit unit = StreamUnit::kRecords;
  OfPhase prompt, generated;

  bool operator==(const StreamTotals&) const = default;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_STREAM_STREAM_OPTIONS_H_

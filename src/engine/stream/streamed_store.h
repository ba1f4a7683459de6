// The records of a layer that stay in the model's file: those in use lie in the
// pass area, those that the policy keeps in slots of the layer's own.
#ifndef THERMOCLINE_ENGINE_STREAM_STREAMED_STORE_H_
#define THERMOCLINE_ENGINE_STREAM_STREAMED_STORE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/ffn/neuron_pieces.h"
#include "engine/ffn/record_store.h"
#include "engine/stream/read_plan.h"
#include "engine/stream/read_queue.h"
#include "engine/stream/slot_arena.h"
#include "engine/stream/storage_mode.h"
#include "engine/stream/stream_options.h"
#include "gguf/gguf.h"
#include "neuron/neuron_set.h"
#include "neuron/record.h"
#include "os/thread_pool.h"
#include "residency/policy.h"
#include "storage/block_reader.h"

namespace thermocline::engine {

class StreamedStore;

// The parts of a record, as bits: up to where the gate ends, and what is behind
// it. Where a record is one part both come together.
inline constexpr uint8_t kFirstPart = 1;
inline constexpr uint8_t kRestPart = 2;
inline constexpr uint8_t kBothParts = 3;

// Neurons [first, last] of one read: all of each record, but of the last
// `parts`.
struct ReadRange {
  uint32_t first = 0;
  uint32_t last = 0;
  uint8_t parts = kBothParts;
};

// What the stores of a model share. One run of one of them at a time; besides,
// one other, of the other half, may be reading its whole layer or what its next
// run will want.
struct StreamShared {
  StreamShared(SlotArena slots, std::unique_ptr<storage::BlockReader> reader,
               std::unique_ptr<residency::Policy> chosen, size_t most_neurons,
               StorageMode how = StorageMode::kCluster, ReadPlan reads = {});

  SlotArena arena;
  ReadQueue queue;
  std::unique_ptr<residency::Policy> policy;
  StorageMode mode;
  ReadPlan plan;
  std::array<StreamedStore*, 2> half_owners = {};  // of the pass area
  // Under the queue's lock while threads compute.
  StreamTotals::OfPhase counts;  // num_rows is nobody's
  // Open reads by their numbers, of who has the half; under the queue's lock.
  std::array<std::vector<ReadRange>, 2> ranges;
  // Of the run at hand, with room for the widest layer.
  std::vector<uint32_t> missing;       // neurons whose records are not whole
  std::vector<uint32_t> absent;        // to read, ascending
  std::vector<uint32_t> rests;         // likewise of who has the first part
  std::vector<uint32_t> waiting;       // [F] pieces that miss a neuron: bits
  std::vector<uint32_t> rest_waiting;  // [F] those that wait for its rest
  std::vector<uint64_t> used_words;    // [WordsOf(F)]
  // Whom the next run of `hinted` will want; null: nobody knows.
  StreamedStore* hinted = nullptr;
  std::vector<uint64_t> hint_words;  // [WordsOf(F)]
};

struct StreamedLayer {
  size_t layer_idx = 0;
  size_t num_neurons = 0;
  neuron::RecordLayout layout;
  gguf::FileSpan span;  // of its records
  std::string path;     // of that file, for errors
};

// A run reads what is not in memory to the layer's half of the pass area, all
// at once, neighbours together; each piece is ready when its last record is
// there. Behind the run the policy says what of it stays: whole records alone.
// Where gates come first a thread tests those of a piece that were missing, and
// asks for the rest of who is open; the piece is ready when that is there.
// Beside runs a layer can be read whole, for prompts that compute all neurons.
//
// Files    streamed_store.cc: runs and residents. store_reads.cc: what is read,
//          and when it has come. store_pieces.cc: pieces. whole_layers.cc.
// Threads  places, states and all that a run counts: the caller's thread while
//          no other one is in a run; from Request to Release whoever has the
//          queue's lock. Of a piece that was handed out nobody writes places.
class StreamedStore final : public RecordStore, private ReadQueue::Owner {
 public:
  // `shared` outlives it.
  static std::unique_ptr<StreamedStore> Make(StreamedLayer layer,
                                             StreamShared* shared);

  void Prefetch(const neuron::NeuronSet& neurons) override;
  void Request(const CutLists& cut, size_t num_shares) override;
  size_t NextReady(size_t& share) override;
  size_t NextReady(size_t& share, GateTest& test) override;
  Status Release() override;
  // Also waits for what was read early, or whole, and nobody took.
  void EndPass() override;

  // Begins to read all of the layer; does not wait. Nothing if it has begun.
  void BeginWhole();
  // Waits for it. Then all records lie in the neurons' order behind
  // whole_base(), a slot each, until another store of the same half runs, or
  // reads its whole layer. kIo: some could not be read.
  Status FinishWhole(os::ThreadPool& pool);
  const std::byte* whole_base() const;

  const neuron::RecordLayout& slot_layout() const { return slot_layout_; }

 private:
  // Where neurons lie, made before the base that points to it.
  struct Tables {
    explicit Tables(size_t num_neurons)
        : places(num_neurons, kAbsent), homes(num_neurons, kAbsent) {}
    std::vector<uint32_t> places;
    std::vector<uint32_t>
        homes;  // resident slots, also of who is still to come
  };
  // What a thread does next.
  struct PieceTask {
    size_t piece = 0;
    bool tests = false;  // its gates; else it is handed out
  };

  // Of a neuron with a place: the parts that are there, and above them those
  // that are on their way.
  static constexpr int kReadsShift = 2;
  static constexpr uint8_t kWasEarly = 16;  // read early, not wanted yet

  StreamedStore(StreamedLayer layer, StreamShared* shared, Tables tables);
  void TakeHomes();
  void OnRead(uint32_t number, const Status& status) override;

  bool has_home_for_all() const { return has_home_for_all_; }
  // Where a record of a neuron that has no place is read to.
  uint32_t TargetOf(uint32_t neuron) const {
    return (has_home_for_all_ ? first_home_ : first_in_half_) + neuron;
  }
  bool IsAtHome(uint32_t neuron) const {
    return places_[neuron] != kAbsent && places_[neuron] == homes_[neuron];
  }
  bool IsInHalf(uint32_t neuron) const {
    return places_[neuron] == first_in_half_ + neuron;
  }
  bool Has(uint32_t neuron, uint8_t parts) const {
    return (states_[neuron] & parts) == parts;
  }
  neuron::NeuronSet used() const {
    return {shared_.used_words.data(), layer_.num_neurons};
  }
  std::vector<ReadRange>& ranges() {
    return shared_.ranges[layer_.layer_idx % 2];
  }

  void TakeHalf();
  void LeaveHalf();

  // Runs.
  bool TestsGates(const CutLists& cut) const;
  double SingleShare() const;
  void ListMissing();
  void ListPiece(size_t token_idx, size_t piece);
  void CountMissing(uint32_t neuron);
  void StartPieces();
  void Learn();
  void AdmitAll(const neuron::NeuronSet& set);
  void Admit(uint32_t neuron, const neuron::NeuronSet& pinned);
  void MoveHome(uint32_t neuron);

  // Reads.
  // Of shared_.absent, as many as most_reads allow, these parts of each, at
  // most max_bytes in one.
  void SubmitAbsent(uint8_t parts, size_t max_bytes, size_t most_reads);
  // Of shared_.rests.
  void SubmitRests();
  storage::Read BeginRead(const ReadRange& range);
  size_t EndOfRead(size_t begin, size_t most_together) const;
  bool CanReadOver(uint32_t first, uint32_t second) const;
  void ReadEarly();
  void OnPart(uint32_t neuron, uint8_t parts);
  bool IsAwaited(uint32_t neuron) const;
  void OnLost(uint32_t neuron);
  Error ErrorOf(const std::string& what, const Status& status) const;

  // Pieces.
  bool TakeTask(size_t share, PieceTask& task);
  size_t TakeFirst(uint32_t& pieces, size_t share) const;
  void TestPiece(size_t piece, GateTest& test);
  void AskForRests(size_t piece, std::span<const uint32_t> open);
  void EndTest(size_t piece);
  void OnPieceCame(size_t piece);
  // For modes that compute nothing before all is there.
  bool WaitsForAll() const { return shared_.mode != StorageMode::kCluster; }

  // Whole layers.
  void FillHomes();
  void CopyFromHomes(os::ThreadPool& pool) const;
  Status SettleWhole();

  StreamedLayer layer_;
  neuron::RecordLayout slot_layout_;  // with the stride of slots
  StreamShared& shared_;
  std::vector<uint32_t> places_, homes_;
  std::vector<uint8_t> states_;
  std::vector<uint32_t> free_homes_;
  uint32_t owner_idx_;
  uint32_t first_in_half_;
  uint32_t first_home_;
  uint32_t num_homes_;
  bool has_home_for_all_;
  size_t first_bytes_;  // of a record's first part; 0: it has but one

  size_t num_reading_ = 0;  // open reads, of whatever
  std::optional<Error> failed_;
  bool reads_whole_ = false;  // from BeginWhole to FinishWhole
  // Of a run.
  CutLists cut_;
  size_t num_shares_ = 1;
  bool any_missed_ = false;
  bool tests_gates_ = false;  // first parts come first
  PieceShares shares_;        // where nothing is missing
  std::array<uint32_t, PieceSums::kMaxPieces> num_pending_ = {};  // records
  // Pieces, bits: to be tested before they are ready; of them, whose gates are
  // there; whose records are.
  uint32_t untested_ = 0, tests_ = 0, ready_ = 0;
  size_t num_untested_ = 0;  // whose test is not over
  size_t num_left_ = 0;      // that nobody has had
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_STREAM_STREAMED_STORE_H_

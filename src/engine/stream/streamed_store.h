// The records of a layer that stay in the model's file: those in use lie in the
// pass area, those that the policy keeps in slots of the layer's own.
#ifndef THERMOCLINE_ENGINE_STREAM_STREAMED_STORE_H_
#define THERMOCLINE_ENGINE_STREAM_STREAMED_STORE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/ffn/neuron_pieces.h"
#include "engine/ffn/record_store.h"
#include "engine/stream/live_policy.h"
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

// Who of a layer has a slot of its own, of all its stores: one, or one for each
// expert, whose neurons are numbered through.
struct LayerHomes {
  uint32_t first_home = 0;
  uint32_t num_homes = 0;
  bool are_for_all = false;
  std::vector<uint32_t> homes;  // [units] slots, also of who is still to come
  std::vector<uint32_t> free;
  std::vector<StreamedStore*> stores;
  // Of moves: that are being read, and units that could not be.
  size_t num_moving = 0;
  std::vector<uint32_t> lost;
  // Of experts that are learned from together (BeginLayer): whom they used.
  bool is_together = false;
  std::vector<uint64_t> used_words;  // [WordsOf(units)]; none without experts
  neuron::NeuronSet used() { return {used_words.data(), homes.size()}; }
};

// Adds to a set whom a row has used.
using AddUsed = std::function<void(size_t row, const neuron::NeuronSet& used)>;

// What the stores of a model share. One run of one of them at a time; besides,
// others, of other rooms, may be reading all of theirs or what their next run
// will want.
struct StreamShared {
  // extents: those that the policy was made for.
  StreamShared(SlotArena slots, std::unique_ptr<storage::BlockReader> reader,
               std::unique_ptr<residency::Policy> chosen,
               std::vector<residency::LayerExtent> extents, size_t most_neurons,
               StorageMode how = StorageMode::kCluster, ReadPlan reads = {},
               const LiveOptions& live_options = {});

  SlotArena arena;
  ReadQueue queue;
  // Under the queue's lock while threads compute.
  StreamTotals::OfPhase counts;  // num_rows is nobody's
  LivePolicy live;
  StorageMode mode;
  ReadPlan plan;
  std::vector<std::unique_ptr<LayerHomes>> layers;  // that have stores
  std::vector<StreamedStore*> room_owners;          // or null
  uint32_t next_room = 0;  // of mixtures, who take them in turn
  // Open reads by their numbers, of who has the room; under the queue's lock.
  std::vector<std::vector<ReadRange>> ranges;
  // Of the run at hand, with room for the widest layer.
  std::vector<uint32_t> missing;       // neurons whose records are not whole
  std::vector<uint32_t> absent;        // to read, ascending
  std::vector<uint32_t> rests;         // likewise of who has the first part
  std::vector<uint32_t> waiting;       // [F] pieces that miss a neuron: bits
  std::vector<uint32_t> rest_waiting;  // [F] those that wait for its rest
  std::vector<uint64_t> used_words;    // [WordsOf(F)]
  // Of the run at hand, or of those of experts that are together, likewise
  // under the lock; not if deterministic.
  RunTimes times;
  double begun_at = 0.0;
  // Whom the next run of `hinted` will want; null: nobody knows.
  StreamedStore* hinted = nullptr;
  std::vector<uint64_t> hint_words;  // [WordsOf(F)]
};

// A layer, or an expert of one.
struct StreamedLayer {
  size_t layer_idx = 0;
  size_t num_neurons = 0;
  size_t num_experts = 0;  // 0: none
  size_t expert_idx = 0;
  neuron::RecordLayout layout;
  gguf::FileSpan span;  // of its records
  std::string path;     // of that file, for errors
};

// A run reads what is not in memory to the layer's room of the pass area, all
// at once, neighbours together; each piece is ready when its last record is
// there. Behind the run the policy says what of it stays: whole records alone.
// Experts of a layer have a store each and share its slots. Of those that are
// together the policy hears when all have run, of others it does not: where
// nearly all experts are used nothing can be learned, and only free slots and
// those that are somebody's anyway are filled.
// Besides the policy proposes moves, which are read in the background straight
// to their slots, behind what a run has read. A run that wants one that is
// still on its way waits for it; one that fails is as if it had never been.
// Where gates come first a thread tests those of a piece that were missing, and
// asks for the rest of who is open; the piece is ready when that is there.
// Beside runs a layer can be read whole, for prompts that compute all neurons.
//
// Files    streamed_store.cc: runs. store_homes.cc: rooms, and who stays.
//          store_reads.cc: what is read, and when it has come. store_moves.cc.
//          store_pieces.cc: pieces. whole_layers.cc.
// Threads  places, states and all that a run counts: the caller's thread while
//          no other one is in a run; from Request to Release whoever has the
//          queue's lock. Of a piece that was handed out nobody writes places.
class StreamedStore final : public RecordStore, private ReadQueue::Owner {
 public:
  // `shared` outlives it. Layers, and the experts of one, in their order.
  static std::unique_ptr<StreamedStore> Make(StreamedLayer layer,
                                             StreamShared* shared);

  void Prefetch(const neuron::NeuronSet& neurons) override;
  void Request(const CutLists& cut, size_t num_shares) override;
  size_t NextReady(size_t& share) override;
  size_t NextReady(size_t& share, GateTest& test) override;
  Status Release() override;
  // Also waits for what was read early, or whole, and nobody took.
  void EndPass() override;

  // Begins to read what the run that is next will want of these neurons, all if
  // there is no set; open_share as in CutLists. Does not wait. For experts,
  // whose run comes before that of another layer. Nothing in modes that wait.
  void Ask(const neuron::NeuronSet* neurons, double open_share);
  // The experts of a layer that are together are asked for next, and run: what
  // they read and wait for is counted as one run's.
  static void BeginTogether(StreamShared& shared, size_t layer_idx);
  // Tells the policy what the experts of a layer that are together have used.
  static void LearnTogether(StreamShared& shared, size_t layer_idx);
  // A pass over all layers is over. Under `deterministic` all that was proposed
  // is there then, or dropped.
  static void CommitMoves(StreamShared& shared);

  // Begins to read all of the layer; does not wait. Nothing if it has begun.
  void BeginWhole();
  // Waits for it. Then all records lie in the neurons' order behind
  // whole_base(), a slot each, until another store takes the room.
  // kIo: some could not be read.
  Status FinishWhole(os::ThreadPool& pool);
  const std::byte* whole_base() const;
  // All neurons were computed for rows of a prompt, and it is known whom they
  // used: the policy hears of row after row, at most kLearnedRows, the last, as
  // if each had been generated. Whose record is here comes home; nothing is
  // read. Not for experts.
  static constexpr size_t kLearnedRows = 64;
  void LearnRows(size_t num_rows, const AddUsed& add_used);

  const neuron::RecordLayout& slot_layout() const { return slot_layout_; }

 private:
  // What a thread does next.
  struct PieceTask {
    size_t piece = 0;
    bool tests = false;  // its gates; else it is handed out
  };

  // Of a neuron with a place: the parts that are there, and above them those
  // that are on their way.
  static constexpr int kReadsShift = 2;
  static constexpr uint8_t kWasEarly = 16;  // hinted at, not wanted yet
  static constexpr uint8_t kWasAsked = 32;  // read early, not wanted yet
  static constexpr uint8_t kIsMoving = 64;  // all of it is on its way home
  // In the number of a read: that of a move, of the neuron with the rest.
  static constexpr uint32_t kMoveBit = uint32_t{1} << 31;
  static constexpr uint32_t kNoRoom = UINT32_MAX;

  // places: made before the base that points to it.
  StreamedStore(StreamedLayer layer, StreamShared* shared,
                std::vector<uint32_t> places);
  static LayerHomes& HomesOf(const StreamedLayer& layer, StreamShared& shared);
  void OnRead(uint32_t number, const Status& status) override;

  bool has_home_for_all() const { return layer_homes_.are_for_all; }
  bool is_expert() const { return layer_.num_experts > 0; }
  // Its number among the layer's.
  uint32_t UnitOf(uint32_t neuron) const { return first_unit_ + neuron; }
  uint32_t& home(uint32_t neuron) const {
    return layer_homes_.homes[UnitOf(neuron)];
  }
  // Where a record of a neuron that has no place is read to.
  uint32_t TargetOf(uint32_t neuron) const {
    return has_home_for_all() ? layer_homes_.first_home + UnitOf(neuron)
                              : first_in_room_ + neuron;
  }
  bool IsAtHome(uint32_t neuron) const {
    return places_[neuron] != kAbsent && places_[neuron] == home(neuron);
  }
  bool IsInRoom(uint32_t neuron) const {
    return room_ != kNoRoom && places_[neuron] == first_in_room_ + neuron;
  }
  bool Has(uint32_t neuron, uint8_t parts) const {
    return (states_[neuron] & parts) == parts;
  }
  bool IsMoving(uint32_t neuron) const {
    return (states_[neuron] & kIsMoving) != 0;
  }
  neuron::NeuronSet used() const {
    return {shared_.used_words.data(), layer_.num_neurons};
  }
  std::vector<ReadRange>& ranges() { return shared_.ranges[room_]; }

  // Rooms, and who stays.
  void TakeRoom();
  uint32_t ChooseRoom() const;
  void LeaveRoom();
  // Nobody may take its room.
  bool IsBusy() const {
    return is_held_ || reads_whole_ || any_missed_ || num_reading_ > 0;
  }
  void Learn();
  // From what a layer's run used.
  static void LearnFrom(StreamShared& shared, size_t layer_idx,
                        const neuron::NeuronSet& used);
  void Admit(uint32_t neuron, const neuron::NeuronSet& pinned);
  bool GiveHome(uint32_t neuron, const neuron::NeuronSet& pinned);
  // Its slot is that of who leaves, or a free one.
  void TakeHome(uint32_t neuron, uint32_t leaves);
  uint32_t LoseHome(uint32_t neuron);
  void MoveHome(uint32_t neuron);
  // Lets those come home that nobody has to leave for.
  void FillHomes(bool of_used);

  // Moves.
  static void StartMoves(StreamShared& shared, size_t layer_idx);
  // Nothing to read: it is there, or comes when it is used.
  std::optional<storage::Read> BeginMove(uint32_t neuron);
  void OnMoved(uint32_t neuron, const Status& status);
  static void DropLost(StreamShared& shared, size_t layer_idx);
  void AwaitMoves();

  // Runs.
  static void BeginTimes(StreamShared& shared);
  bool TestsGates(double open_share, size_t num_missing) const;
  double SingleShare(size_t num_missing) const;
  void ListMissing();
  void ListPiece(size_t token_idx, size_t piece);
  void CountMissing(uint32_t neuron);
  void StartPieces();

  // Reads.
  // Of shared_.absent, as many as most_reads allow, these parts of each, at
  // most max_bytes in one. What is read gets the mark: early reads do not count
  // as there, whether they are over or not, and who lies in between neither.
  void SubmitAbsent(uint8_t parts, size_t max_bytes, size_t most_reads,
                    uint8_t mark = 0);
  // Of shared_.rests.
  void SubmitRests();
  storage::Read BeginRead(const ReadRange& range, uint8_t mark = 0);
  size_t EndOfRead(size_t begin, size_t most_together) const;
  bool CanReadOver(uint32_t first, uint32_t second) const;
  void ReadEarly();
  void OnPart(uint32_t neuron, uint8_t parts);
  bool IsAwaited(uint32_t neuron) const;
  void OnLost(uint32_t neuron);
  Error ErrorOf(const std::string& what, const Status& status) const;

  // Pieces.
  PieceTask AwaitTask(size_t share);
  bool TakeTask(size_t share, PieceTask& task);
  size_t TakeFirst(uint32_t& pieces, size_t share) const;
  void TestPiece(size_t piece, GateTest& test);
  void AskForRests(size_t piece, std::span<const uint32_t> open);
  void EndTest(size_t piece);
  void OnPieceCame(size_t piece);
  // For modes that compute nothing before all is there.
  bool WaitsForAll() const { return shared_.mode != StorageMode::kCluster; }

  // Whole layers.
  void CopyFromHomes(os::ThreadPool& pool) const;
  Status SettleWhole();

  StreamedLayer layer_;
  neuron::RecordLayout slot_layout_;  // with the stride of slots
  StreamShared& shared_;
  LayerHomes& layer_homes_;
  uint32_t first_unit_;
  std::vector<uint32_t> places_;
  std::vector<uint8_t> states_;
  uint32_t owner_idx_;
  uint32_t room_ = kNoRoom;
  uint32_t first_in_room_ = 0;
  bool room_has_all_ = false;  // also those that are at home
  bool is_held_ = false;       // by a layer whose experts are together
  size_t first_bytes_;         // of a record's first part; 0: it has but one

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

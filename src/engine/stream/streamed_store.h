// The records of a layer that stay in the model's file: those in use lie in the
// pass area, those that the policy keeps in slots of the layer's own.
#ifndef THERMOCLINE_ENGINE_STREAM_STREAMED_STORE_H_
#define THERMOCLINE_ENGINE_STREAM_STREAMED_STORE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/ffn/neuron_pieces.h"
#include "engine/ffn/record_store.h"
#include "engine/stream/read_queue.h"
#include "engine/stream/slot_arena.h"
#include "engine/stream/stream_options.h"
#include "gguf/gguf.h"
#include "neuron/neuron_set.h"
#include "neuron/record.h"
#include "os/thread_pool.h"
#include "residency/policy.h"
#include "storage/block_reader.h"

namespace thermocline::engine {

class StreamedStore;

// What the stores of a model share. One run of one of them at a time; besides,
// one other may be reading its whole layer.
struct StreamShared {
  StreamShared(SlotArena slots, std::unique_ptr<storage::BlockReader> reader,
               std::unique_ptr<residency::Policy> chosen, size_t most_neurons);

  SlotArena arena;
  ReadQueue queue;
  std::unique_ptr<residency::Policy> policy;
  std::array<StreamedStore*, 2> half_owners = {};  // of the pass area
  StreamTotals::OfPhase counts;                    // num_rows is nobody's
  // Of the run at hand, with room for the widest layer.
  std::vector<uint32_t> misses;      // neurons, ascending
  std::vector<storage::Read> reads;  // of one submission
  std::vector<uint32_t> first_miss;  // of each read, and behind the last
  std::vector<uint32_t> waiting;     // [F] pieces that wait for a neuron: bits
  std::vector<uint64_t> used_words;  // [WordsOf(F)]
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
// there. Behind the run the policy says what of it stays.
// Beside runs a layer can be read whole, for prompts that compute all neurons.
class StreamedStore final : public RecordStore, private ReadQueue::Owner {
 public:
  // `shared` outlives it.
  static std::unique_ptr<StreamedStore> Make(StreamedLayer layer,
                                             StreamShared* shared);

  void Request(const CutLists& cut, size_t num_shares) override;
  size_t NextReady(size_t& share) override;
  Status Release() override;
  // Also waits for a whole layer that nobody took.
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
  // In numbers of reads: they are of a whole layer.
  static constexpr uint32_t kOfWhole = uint32_t{1} << 31;

  // Where neurons lie, made before the base that points to it.
  struct Tables {
    explicit Tables(size_t num_neurons)
        : places(num_neurons, kAbsent), homes(num_neurons, kAbsent) {}
    std::vector<uint32_t> places;
    std::vector<uint32_t>
        homes;  // resident slots, also of who is still to come
  };

  StreamedStore(StreamedLayer layer, StreamShared* shared, Tables tables);
  void TakeHomes();
  void OnRead(uint32_t number, const Status& status) override;
  void OnMissed(uint32_t read_idx, const Status& status);

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
  neuron::NeuronSet used() const {
    return {shared_.used_words.data(), layer_.num_neurons};
  }

  void TakeHalf();
  void LeaveHalf();
  // Fills shared_.misses, used() and what waits for whom.
  void ListMisses(const CutLists& cut);
  void ListPiece(const CutLists& cut, size_t token_idx, size_t piece);
  void CountPending();
  // Submits reads of shared_.misses, at most max_bytes in one, numbered from
  // `number`. Returns how many.
  size_t SubmitMisses(size_t max_bytes, uint32_t number);
  bool CanReadOver(uint32_t first, uint32_t second) const;
  size_t TakeReady(size_t share);
  void Learn();
  void AdmitAll(const neuron::NeuronSet& set);
  void Admit(uint32_t neuron, const neuron::NeuronSet& pinned);
  void MoveHome(uint32_t neuron);
  void FillHomes();
  void CopyFromHomes(os::ThreadPool& pool) const;
  Status SettleWhole();
  Error ErrorOf(const std::string& what, const Status& status) const;

  StreamedLayer layer_;
  neuron::RecordLayout slot_layout_;  // with the stride of slots
  StreamShared& shared_;
  std::vector<uint32_t> places_, homes_;
  std::vector<uint32_t> free_homes_;
  uint32_t owner_idx_;
  uint32_t first_in_half_;
  uint32_t first_home_;
  uint32_t num_homes_;
  bool has_home_for_all_;
  // Of a run. From Request to Release under the queue's lock.
  size_t num_pieces_ = 0;
  size_t num_shares_ = 1;
  bool any_missed_ = false;
  PieceShares shares_;
  std::array<uint32_t, PieceSums::kMaxPieces> num_pending_ = {};  // records
  uint32_t ready_pieces_ = 0;                                     // bits
  size_t num_left_ = 0;  // pieces that nobody has had
  size_t num_reading_ = 0;
  std::optional<Error> failed_;
  std::vector<uint32_t> lost_;  // whose reads failed
  // Of a whole layer, likewise.
  bool reads_whole_ = false;
  size_t num_whole_reading_ = 0;
  std::optional<Error> whole_failed_;
  std::vector<uint64_t> whole_words_;  // who is read
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_STREAM_STREAMED_STORE_H_

// The records of a layer's neurons, wherever they lie.
#ifndef THERMOCLINE_ENGINE_FFN_RECORD_STORE_H_
#define THERMOCLINE_ENGINE_FFN_RECORD_STORE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "engine/ffn/neuron_pieces.h"
#include "model/model.h"
#include "neuron/neuron_set.h"
#include "neuron/record.h"

namespace thermocline::engine {

// RecordStore::places(): a record that is not in memory.
inline constexpr uint32_t kAbsent = UINT32_MAX;

// What a thread can say of gates alone, before the rest of a record is there.
class GateTest {
 public:
  virtual ~GateTest() = default;
  // Keeps of `count` <= kMostTested neurons, whose gates have come, those that
  // the token would compute; returns how many.
  static constexpr size_t kMostTested = 64;
  virtual size_t KeepOpen(size_t token_idx, uint32_t* ids, size_t count) = 0;
};

// The records of one FFN, or of one expert. A neuron's number says who it is:
// it finds biases, sets and hidden elements by it. Its place says where its
// record lies now; only what reads records asks for that.
//
// Owns     the memory behind views(), or knows who does; it outlives executors.
// Run      Request, then NextReady on the threads until nothing is left, then
//          Release. One run at a time.
// Threads  Request, Release and EndPass: the thread that calls the executor;
//          NextReady and reading places(): its workers, in between.
// Errors   come from Release alone, when all threads are back.
// Invariants
//   1. What a record holds depends on its neuron, never on its place or on when
//      it came: a piece is handed out whole, computed in its list's order, and
//      added up by its number, so that no bit depends on a store.
//   2. From NextReady to Release the records of a piece stay at their places.
//      Afterwards they may leave, whenever a store of the model begins a run.
class RecordStore {
 public:
  virtual ~RecordStore() = default;
  RecordStore(const RecordStore&) = delete;
  RecordStore& operator=(const RecordStore&) = delete;

  // The parts of records as matrices of which row p is that of the record at
  // place p; they stay where they are from run to run, but for MappedStore's
  // PlaceAt. Absent: the gate where
  // there is none, or where gates stay a matrix beside the records, and down_t
  // where the FFN has down alone. Those are by neuron, in FfnMatrices.
  const neuron::RecordViews& views() const { return views_; }

  // [F] where each neuron's record lies, or kAbsent; entries of a piece hold
  // from NextReady to Release, others may be written meanwhile. Null: neuron i
  // lies at place i.
  const uint32_t* places() const { return places_; }

  // Begins a run over the neurons of `cut`, whose arrays stay as they are until
  // Release: what is not in memory is read, and stays there until then. There
  // is room for all of them. num_shares: into how many shares of pieces that
  // follow each other workers would best be led, 1 to kMaxPieces. Does not
  // wait.
  virtual void Request(const CutLists& cut, size_t num_shares) = 0;

  // A piece of the run that nobody has had, and all of whose records are in
  // memory: of share `share` or, where that has none, of another one, which
  // `share` then is; a store that reads goes by what is there instead. Waits if
  // none is ready. cut.max_pieces: no more, because all are handed out or
  // because a read has failed.
  virtual size_t NextReady(size_t& share) = 0;

  // The same for a thread that can test gates. Of neurons that rest for all
  // tokens of the piece the gate alone may be there then.
  virtual size_t NextReady(size_t& share, GateTest& /*test*/) {
    return NextReady(share);
  }

  // A hint, before another store of the model requests: this one's next run
  // will want these neurons. Several add up.
  virtual void Prefetch(const neuron::NeuronSet& /*neurons*/) {}

  // Ends the run. kIo: a record could not be read, so pieces are missing; the
  // next run asks for it again.
  virtual Status Release() = 0;

  // A pass over all layers is over, also one that failed.
  virtual void EndPass() = 0;

 protected:
  RecordStore(const neuron::RecordViews& views, const uint32_t* places)
      : views_(views), places_(places) {}
  void set_views(const neuron::RecordViews& views) { views_ = views; }

 private:
  neuron::RecordViews views_;
  const uint32_t* places_;
};

// Records, or plain matrices, that lie in memory in the order of their neurons:
// everything is ready at once, and nothing ever fails. Threads read share by
// share, each as one stream, then help the others.
class MappedStore final : public RecordStore {
 public:
  explicit MappedStore(const model::FfnMatrices& matrices)
      : RecordStore({matrices.gate, matrices.up, matrices.down_t}, nullptr) {}

  // From the next run on they lie elsewhere; nothing else may be another.
  void PlaceAt(const model::FfnMatrices& matrices) {
    set_views({matrices.gate, matrices.up, matrices.down_t});
  }

  void Request(const CutLists& cut, size_t num_shares) override {
    shares_.Start(cut.max_pieces, num_shares);
  }
  using RecordStore::NextReady;
  size_t NextReady(size_t& share) override { return shares_.Take(share); }
  Status Release() override { return {}; }
  void EndPass() override {}

 private:
  PieceShares shares_;
};

std::unique_ptr<RecordStore> MakeMappedStore(
    const model::FfnMatrices& matrices);

// Makes the store of a layer, or of expert `expert_idx` of it (0 without
// experts). The matrices outlive it.
using MakeRecordStore = std::function<std::unique_ptr<RecordStore>(
    size_t layer_idx, size_t expert_idx, const model::FfnMatrices& matrices)>;

// Those of all layers of a model, which outlives them.
class RecordStores {
 public:
  // make: empty for MakeMappedStore.
  RecordStores(const model::Weights& weights, const MakeRecordStore& make);

  RecordStore* of(size_t layer_idx, size_t expert_idx) const {
    return layers_[layer_idx][expert_idx].get();
  }
  // Of every store.
  void EndPass() const;

 private:
  std::vector<std::vector<std::unique_ptr<RecordStore>>> layers_;
  bool are_mapped_;  // mapped ones have nothing to end
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_RECORD_STORE_H_

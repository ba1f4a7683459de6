// One feed-forward block at listed neurons: what a token does not need is not
// read.
#ifndef THERMOCLINE_ENGINE_FFN_NEURON_FFN_H_
#define THERMOCLINE_ENGINE_FFN_NEURON_FFN_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "base/status.h"
#include "compute/matmul.h"
#include "compute/rows.h"
#include "engine/ffn/ffn_scratch.h"
#include "engine/ffn/neuron_pieces.h"
#include "engine/ffn/record_store.h"
#include "kernels/kernels.h"
#include "model/config.h"
#include "model/model.h"
#include "neuron/neuron_set.h"

namespace thermocline::engine {

// What threads leave behind, piece by piece. One for all layers of a session.
struct PieceResults {
  using Counts = std::array<std::array<uint32_t, PieceSums::kMaxPieces>,
                            kernels::kListedTokens>;
  PieceSums sums;
  Counts num_open;   // neurons whose gate let something through
  Counts num_fired;  // of them, those with h != 0
};

// Where the rows of a matrix lie: neuron i's at place i, or at places[i].
struct RowPlaces {
  explicit RowPlaces(const TensorView& view, const uint32_t* places = nullptr)
      : dtype(view.dtype),
        num_elems(view.shape.ne[0]),
        data(view.data),
        places(places),
        stride(view ? view.row_stride() : 0),
        num_bytes(view ? view.row_bytes() : 0) {}
  const std::byte* row(uint32_t neuron) const {
    TC_DCHECK(data != nullptr);
    TC_DCHECK(places == nullptr || places[neuron] != kAbsent);
    return data + (places == nullptr ? neuron : places[neuron]) * stride;
  }

  DType dtype;
  size_t num_elems;        // of a row
  const std::byte* data;   // null: there is no matrix
  const uint32_t* places;  // RecordStore::places(); null: rows are by neuron
  size_t stride;
  size_t num_bytes;  // of a row
};

// For NeuronFfn's rest_below: also what comes to nothing is computed.
inline constexpr float kNothingRests = -1.0f;

// What opens a gate, or a neuron without one; of kDRelu its other half aside.
inline Activation ActivationOfGate(Activation activation) {
  return activation == Activation::kDRelu ? Activation::kRelu : activation;
}

// Whom lists name, which says how many of them will pass the test, a few or
// most: all neurons, ids[i] = i; all in another order; or candidates.
enum class Listed { kAll, kAllReordered, kCandidates };

// Of the neurons that are tested, those that usually pass: CutLists::open_share
// of gated records.
inline double OpenShareOf(Listed listed, float rest_below) {
  if (rest_below < 0.0f) return 1.0;
  return listed == Listed::kCandidates ? 0.6 : 0.1;
}

// Everything that it is given outlives it.
class NeuronFfn {
 public:
  // weights: biases, and what is not in `records`, whose matrices they were.
  // rest_below: a neuron whose opened gate |f(gate x)| is 0 or less than this
  // counts as at rest (thresholds of CATS); 0: exact.
  NeuronFfn(const model::FfnSpec* config, const model::FfnWeights* weights,
            RecordStore* records, Listed listed, float rest_below,
            const compute::Compute* compute, const FfnScratch* scratch,
            PieceResults* board);

  // For x [T, D], T <= kListedTokens, each with a list (T lists):
  //   gated   h = f(gate_i x + b_i) * (up_i x + b'_i), 0 for neurons at rest
  //   plain   h = f(up_i x + b'_i), likewise
  //   with down_t       out[t] = sum of h_i * column i of Wdown, + its bias
  //   with down alone   hidden[t] = h, 0 for neurons that are not listed, for
  //                     the caller to multiply; `out` is not touched
  // A list is cut by bytes into at most PieceSums::kMaxPieces pieces, whatever
  // the number of threads and whatever the other tokens' lists are, and each
  // piece is summed alone: the same bits for every number of threads and every
  // cut of a batch. Neurons at rest contribute nothing, biases of theirs
  // neither. Allocates nothing. One parallel region.
  // Cost: reads the gate rows of listed neurons, up row and down column of
  // those that are not at rest; what comes next is asked for while the last is
  // computed. Tokens with the same list share the reading of gate rows; of
  // others' neurons that they have in common one finds them in the cache.
  // Source: PowerInfer-2 4.4 (one visit per record); PowerInfer 5.4.
  // raw: what the tests are made of, gate_i x + b_i (or up_i x + b'_i without a
  // gate) of listed neurons, at raw[t][i]; no data: nobody asks.
  // kIo: a record could not be read; what it writes is then undefined.
  Status Run(const compute::Rows& x, std::span<const NeuronList> lists,
             const compute::Rows& hidden, const compute::Rows& out,
             const compute::Rows& raw = {});

  // Memory that a thread of Run works in, at a multiple of 64 bytes.
  static size_t WorkerBytes();

  // Of token t of the last Run.
  size_t num_open(size_t token_idx) const;
  void AddFired(size_t token_idx, const neuron::NeuronSet& set) const;

  // Bytes that `count` listed neurons read, num_open of them not at rest;
  // without a down matrix that is read whole.
  size_t BytesRead(size_t count, size_t num_open) const;

 private:
  class Worker;
  // Where the rows lie now.
  void TakeRows();
  // Of a thread that begins there.
  void Work(size_t share, size_t worker_idx);
  bool computes_all() const { return rest_below_ < 0.0f; }
  size_t NumPieces(size_t count) const;
  // Bytes that come with each row that is tested: its own, and what is read of
  // those that pass, as many as usually do. The same for every token and batch:
  // sums are rounded by what is computed together.
  double BytesPerTested() const;
  double OpenShare() const { return OpenShareOf(listed_, rest_below_); }
  // Whether a chunk's rows are tested as part of a matrix, in which neurons of
  // successive numbers follow each other. Not where all pass: the long chunks
  // of that then bring too much at once for the rest.
  bool TestsInSequence() const {
    return listed_ == Listed::kAll && !computes_all() &&
           tested_rows_.places == nullptr &&
           tested_rows_.stride == tested_rows_.num_bytes;
  }
  // Where the sum of a piece goes.
  float* SumOf(size_t piece, size_t token_idx) const;
  uint32_t* FiredOf(size_t token_idx) const;
  void AddPieces(size_t to, size_t from) const;
  void Finish(const compute::Rows& out) const;

  const model::FfnSpec* config_;
  const model::FfnWeights* weights_;
  RecordStore* records_;
  Listed listed_;
  float rest_below_;
  const compute::Compute* compute_;
  const FfnScratch* scratch_;
  PieceResults* board_;
  RowPlaces tested_rows_;  // of the matrix whose products are tested
  const TensorView* tested_bias_;
  RowPlaces up_rows_, down_rows_;  // up: with a gate only
  bool any_rounded_;
  // Of the run at hand.
  std::array<NeuronList, kernels::kListedTokens> list_copies_;
  std::array<size_t, kernels::kListedTokens> num_pieces_ = {};
  CutLists cut_;  // made of these
  compute::Rows x_, hidden_, out_, raw_;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_NEURON_FFN_H_

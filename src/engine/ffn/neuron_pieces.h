// The lists of neurons that a sparse FFN computes, cut into pieces: what is in
// a piece, who takes it, and how what the pieces give is added up.
#ifndef THERMOCLINE_ENGINE_FFN_NEURON_PIECES_H_
#define THERMOCLINE_ENGINE_FFN_NEURON_PIECES_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace thermocline::engine {

// Neurons by their numbers, in the order in which their terms are added. Where
// their records lie is another matter (record_store.h).
struct NeuronList {
  const uint32_t* ids = nullptr;
  size_t count = 0;

  bool operator==(const NeuronList&) const = default;  // the very same
};

// The lists of a run's tokens, each cut into pieces. Piece p of a run is piece
// p of every token that has so many.
struct CutLists {
  // The first element of a piece.
  static size_t PieceBegin(size_t piece, size_t num_pieces, size_t count) {
    return count * piece / num_pieces;
  }
  // The ids in a token's piece, which is below its num_pieces.
  std::span<const uint32_t> PieceOf(size_t token_idx, size_t piece) const {
    const NeuronList& list = lists[token_idx];
    const size_t begin = PieceBegin(piece, num_pieces[token_idx], list.count);
    const size_t end = PieceBegin(piece + 1, num_pieces[token_idx], list.count);
    return {list.ids + begin, end - begin};
  }

  std::span<const NeuronList> lists;   // [T]
  std::span<const size_t> num_pieces;  // [T]
  size_t max_pieces = 0;               // of them
  // How many of the neurons of gated records are expected to pass the test of
  // their gate, without which nothing else of a record is looked at. 1: there
  // is no such test.
  double open_share = 1.0;
};

// Adds the vectors of up to kMaxPieces pieces in a tree that their numbers
// alone make: at width 1, 2, 4, .. piece p takes the sum of piece p + width, if
// both are there and p is a multiple of 2 * width. So the bits of the sum, in
// piece 0 at the end, depend on nothing else; what a sum over n pieces does
// between those there are is the same for every larger n.
// Whoever brings the second part of a node adds them: nobody waits, and the
// adding is done where the vectors are still in a cache.
class PieceSums {
 public:
  // No more than so many threads have work in a sparse FFN. Bits depend on it:
  // a sum of more pieces has another order.
  static constexpr size_t kMaxPieces = 32;

  // Before the threads start.
  void Start(size_t num_pieces) {
    num_pieces_ = num_pieces;
    for (std::atomic<uint32_t>& count : arrivals_) {
      count.store(0, std::memory_order_relaxed);
    }
  }

  // Called once for each piece p < num_pieces by the thread that has computed
  // it. add(to, from): makes the vector of piece `to` the sum of both.
  template <typename Add>
  void Arrive(size_t piece, Add&& add) {
    for (size_t width = 1; width < num_pieces_; width *= 2) {
      const size_t left = piece / (2 * width) * (2 * width);
      const size_t right = left + width;
      piece = left;
      if (right >= num_pieces_) continue;
      // acq_rel: the second sees what the first has written.
      if (arrivals_[right].fetch_add(1, std::memory_order_acq_rel) == 0) return;
      add(left, right);
    }
  }

 private:
  size_t num_pieces_ = 0;
  std::array<std::atomic<uint32_t>, kMaxPieces> arrivals_;
};

// Who computes which piece: each thread takes the pieces of a share of its own
// in order, so that it reads what lies together, then helps the others, piece
// by piece.
class PieceShares {
 public:
  // Before the threads start. num_shares <= PieceSums::kMaxPieces.
  void Start(size_t num_pieces, size_t num_shares) {
    num_pieces_ = num_pieces;
    num_shares_ = num_shares;
    for (size_t s = 0; s < num_shares; ++s) {
      next_[s].store(Begin(s), std::memory_order_relaxed);
    }
  }

  size_t num_pieces() const { return num_pieces_; }

  // A piece that nobody has, from `share` or those after it, which is where the
  // caller goes on; num_pieces() when all are taken.
  size_t Take(size_t& share) {
    for (size_t tries = 0; tries < num_shares_; ++tries) {
      const size_t piece = next_[share].fetch_add(1, std::memory_order_relaxed);
      if (piece < Begin(share + 1)) return piece;
      share = (share + 1) % num_shares_;
    }
    return num_pieces_;
  }

 private:
  size_t Begin(size_t share) const { return num_pieces_ * share / num_shares_; }

  size_t num_pieces_ = 0;
  size_t num_shares_ = 1;
  std::array<std::atomic<size_t>, PieceSums::kMaxPieces> next_;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_NEURON_PIECES_H_

// Who computes which piece.
#ifndef THERMOCLINE_ENGINE_FFN_PIECE_SHARES_H_
#define THERMOCLINE_ENGINE_FFN_PIECE_SHARES_H_

#include <array>
#include <atomic>
#include <cstddef>

#include "engine/ffn/piece_sums.h"

namespace thermocline::engine {

// Each thread takes the pieces of a share of its own in order, so that it reads
// what lies together, then helps the others, piece by piece.
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

#endif  // THERMOCLINE_ENGINE_FFN_PIECE_SHARES_H_

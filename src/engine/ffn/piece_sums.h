// Vectors that threads add up in an order of its own, whoever comes first.
#ifndef THERMOCLINE_ENGINE_FFN_PIECE_SUMS_H_
#define THERMOCLINE_ENGINE_FFN_PIECE_SUMS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace thermocline::engine {

// Adds the vectors of up to kMaxPieces pieces in a tree that their numbers
// alone make: at width 1, 2, 4, .. piece p takes the sum of piece p + width, if
// both are there and p is a multiple of 2 * width. So the bits of the sum, in
// piece 0 at the end, depend on nothing else; what a sum over n pieces does
// between those there are is the same for every larger n.
// Whoever brings the second part of a node adds them: nobody waits, and the
// adding is done where the vectors are still in a cache.
class PieceSums {
 public:
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

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_PIECE_SUMS_H_

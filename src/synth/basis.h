// The directions along which a synthetic model's stream moves.
#ifndef THERMOCLINE_SYNTH_BASIS_H_
#define THERMOCLINE_SYNTH_BASIS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace thermocline::synth {

// R vectors of signs over W dimensions, (nearly) orthogonal. W is cut into
// powers of two, each of which has its own rows of Walsh's matrix: where it has
// enough of them the directions are orthogonal, in the small rest by chance.
// So a sum over all directions takes W log W steps, not W R. The sum of each
// direction's signs is 0.
//   Immutable; safe from any thread.
class SignBasis {
 public:
  // Requires width to be a multiple of 32, count > 0. (CHECKed)
  SignBasis(size_t width, size_t count, uint64_t seed);

  size_t width() const { return width_; }
  size_t count() const { return count_; }

  // out[j] = sum over k of coefs[k] * direction k at j. out [width], the same
  // bits on every machine.
  void Combine(std::span<const float> coefs, std::span<float> out) const;

  // out[j] = factor * direction k at j.
  void Direction(size_t k, float factor, std::span<float> out) const;

  // Direction k at j: +1 or -1.
  int Sign(size_t k, size_t j) const;

 private:
  struct Segment {
    size_t begin = 0;
    size_t size = 0;             // a power of two
    std::vector<uint32_t> rows;  // [count] of Walsh's matrix, not 0
    std::vector<bool> negative;  // [count]
  };
  size_t width_;
  size_t count_;
  std::vector<Segment> segments_;
};

}  // namespace thermocline::synth

#endif  // THERMOCLINE_SYNTH_BASIS_H_

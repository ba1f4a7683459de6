// Many arrays in one piece of memory.
#ifndef THERMOCLINE_COMPUTE_CARVER_H_
#define THERMOCLINE_COMPUTE_CARVER_H_

#include <cstddef>
#include <cstdint>

#include "compute/rows.h"

namespace thermocline::compute {

// Hands out consecutive pieces, each at a multiple of 64 bytes. Planning (null
// base) and binding run the same calls, so the plan is exact by construction.
// Owns nothing.
class Carver {
 public:
  static constexpr uint64_t kAlignment = 64;

  explicit Carver(std::byte* base) : base_(base) {}

  // Null where base is, and once sizes have overflowed.
  std::byte* TakeBytes(uint64_t count, uint64_t bytes_each);
  template <typename T>
  T* Take(uint64_t num_rows, uint64_t width) {
    if (width > UINT64_MAX / sizeof(T)) overflowed_ = true;
    return reinterpret_cast<T*>(TakeBytes(num_rows, width * sizeof(T)));
  }
  // Rows that each begin at a multiple of 64 bytes.
  Rows TakeRows(uint64_t num_rows, uint64_t width);

  // Goes on behind what `copy`, a copy of this one, has taken since, and what
  // others that were covered have: arrays that are not in use at the same time
  // lie in one place.
  void Cover(const Carver& copy);

  uint64_t used() const { return used_; }  // bytes
  bool overflowed() const { return overflowed_; }

 private:
  std::byte* base_;
  uint64_t used_ = 0;
  bool overflowed_ = false;
};

}  // namespace thermocline::compute

#endif  // THERMOCLINE_COMPUTE_CARVER_H_

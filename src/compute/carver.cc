#include "compute/carver.h"

#include <algorithm>
#include <optional>

#include "base/math.h"

namespace thermocline::compute {

std::byte* Carver::TakeBytes(uint64_t count, uint64_t bytes_each) {
  const std::optional<uint64_t> num_bytes = CheckedMul(count, bytes_each);
  const std::optional<uint64_t> end =
      num_bytes.has_value() ? CheckedAdd(used_, *num_bytes) : std::nullopt;
  if (overflowed_ || !end.has_value() || *end > UINT64_MAX - kAlignment) {
    overflowed_ = true;
    return nullptr;
  }
  std::byte* piece = base_ == nullptr ? nullptr : base_ + used_;
  used_ = RoundUp(*end, kAlignment);
  return piece;
}

Rows Carver::TakeRows(uint64_t num_rows, uint64_t width) {
  if (width > UINT64_MAX / kAlignment) {
    overflowed_ = true;
    return {};
  }
  const uint64_t stride = RoundUp(width, kAlignment / sizeof(float));
  return {Take<float>(num_rows, stride), width, stride};
}

void Carver::Cover(const Carver& copy) {
  used_ = std::max(used_, copy.used_);
  overflowed_ = overflowed_ || copy.overflowed_;
}

}  // namespace thermocline::compute

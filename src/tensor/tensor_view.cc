#include "tensor/tensor_view.h"

#include <fmt/format.h>

#include <span>

namespace thermocline {

std::string ToString(const Shape& shape) {
  TC_CHECK(shape.rank >= 0 && shape.rank <= kMaxDims);
  const std::span used(shape.ne.data(), static_cast<size_t>(shape.rank));
  return fmt::format("[{}]", fmt::join(used, ", "));
}

}  // namespace thermocline

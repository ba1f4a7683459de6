#include "storage/fixed_memory.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace thermocline::storage {

FixedMemory::FixedMemory(std::span<const std::span<std::byte>> ranges,
                         size_t most_bytes) {
  for (std::span<std::byte> range : ranges) {
    while (!range.empty()) {
      const size_t num_bytes = std::min(range.size(), most_bytes);
      pieces_.push_back(range.first(num_bytes));
      range = range.subspan(num_bytes);
    }
  }
  std::ranges::sort(pieces_, {},
                    [](const auto& piece) { return piece.data(); });
  for (size_t i = 1; i < pieces_.size(); ++i) {
    TC_CHECK(pieces_[i - 1].data() + pieces_[i - 1].size() <=
             pieces_[i].data());
  }
  TC_CHECK(pieces_.size() <= std::numeric_limits<uint16_t>::max());
}

uint64_t FixedMemory::num_bytes() const {
  uint64_t sum = 0;
  for (const auto& piece : pieces_) sum += piece.size();
  return sum;
}

std::optional<uint16_t> FixedMemory::Find(const std::byte* to,
                                          size_t num_bytes) const {
  const auto behind =
      std::ranges::upper_bound(pieces_, to, {}, [](const auto& piece) {
        return static_cast<const std::byte*>(piece.data());
      });
  if (behind == pieces_.begin()) return std::nullopt;
  const std::span<std::byte>& piece = *(behind - 1);
  const auto offset = static_cast<size_t>(to - piece.data());
  if (offset > piece.size() || num_bytes > piece.size() - offset) {
    return std::nullopt;
  }
  return static_cast<uint16_t>(behind - pieces_.begin() - 1);
}

}  // namespace thermocline::storage

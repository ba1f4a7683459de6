// Memory that is known by number: which range has the bytes that a read goes
// to.
#ifndef THERMOCLINE_STORAGE_FIXED_MEMORY_H_
#define THERMOCLINE_STORAGE_FIXED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace thermocline::storage {

// Ranges in pieces of a size that the kernel takes, numbered from 0.
class FixedMemory {
 public:
  // What the kernel takes as one.
  static constexpr size_t kMostBytes = size_t{1} << 30;

  FixedMemory() = default;
  // Requires that ranges do not overlap (CHECKed); empty ones are left out.
  explicit FixedMemory(std::span<const std::span<std::byte>> ranges,
                       size_t most_bytes = kMostBytes);

  // By their addresses.
  std::span<const std::span<std::byte>> pieces() const { return pieces_; }
  uint64_t num_bytes() const;
  // The piece that has all of `num_bytes` behind `to`; nullopt: none, or two
  // have a part each.
  std::optional<uint16_t> Find(const std::byte* to, size_t num_bytes) const;

 private:
  std::vector<std::span<std::byte>> pieces_;
};

}  // namespace thermocline::storage

#endif  // THERMOCLINE_STORAGE_FIXED_MEMORY_H_

#include "neuron/active_set.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace thermocline::neuron {
namespace {

// The head's lowest bit.
constexpr uint64_t kGaps = 0;
constexpr uint64_t kBits = 1;

constexpr int kMaxVarintBytes = 5;  // 35 bits: a head of 2^31 neurons has 33

size_t VarintBytes(uint64_t value) {
  return (static_cast<size_t>(std::bit_width(value | 1)) + 6) / 7;
}

void AppendVarint(uint64_t value, std::vector<std::byte>& out) {
  for (; value >= 0x80; value >>= 7) {
    out.push_back(static_cast<std::byte>((value & 0x7f) | 0x80));
  }
  out.push_back(static_cast<std::byte>(value));
}

// Takes a number from the front of `bytes`; nullopt: none, or written longer
// than it needs.
std::optional<uint64_t> TakeVarint(std::span<const std::byte>& bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size() && i < kMaxVarintBytes; ++i) {
    const auto byte = static_cast<uint64_t>(bytes[i]);
    value |= (byte & 0x7f) << (7 * i);
    if (byte >= 0x80) continue;
    if (i > 0 && byte == 0) return std::nullopt;
    bytes = bytes.subspan(i + 1);
    return value;
  }
  return std::nullopt;
}

size_t BitBytes(uint32_t num_neurons) {
  return (static_cast<size_t>(num_neurons) + 7) / 8;
}

// Checks the set: bits of a wrong one would lie outside.
size_t GapBytes(std::span<const uint32_t> set, uint32_t num_neurons) {
  size_t num_bytes = 0;
  uint32_t next = 0;  // the least neuron that may follow
  for (const uint32_t neuron : set) {
    TC_CHECK(neuron >= next && neuron < num_neurons);
    num_bytes += VarintBytes(neuron - next);
    next = neuron + 1;
  }
  return num_bytes;
}

void AppendBits(std::span<const uint32_t> set, uint32_t num_neurons,
                std::vector<std::byte>& out) {
  const size_t begin = out.size();
  out.resize(begin + BitBytes(num_neurons));
  for (const uint32_t neuron : set) {
    out[begin + neuron / 8] |= std::byte{1} << (neuron % 8);
  }
}

bool TakeGaps(std::span<const std::byte>& bytes, uint64_t count,
              uint32_t num_neurons, std::vector<uint32_t>& set) {
  uint64_t next = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const auto gap = TakeVarint(bytes);
    if (!gap.has_value() || next + *gap >= num_neurons) return false;
    set.push_back(static_cast<uint32_t>(next + *gap));
    next += *gap + 1;
  }
  return true;
}

// Bits behind the last neuron must be 0, and as many be set as the head says.
bool TakeBits(std::span<const std::byte>& bytes, uint64_t count,
              uint32_t num_neurons, std::vector<uint32_t>& set) {
  const size_t num_bytes = BitBytes(num_neurons);
  if (bytes.size() < num_bytes) return false;
  for (size_t i = 0; i < num_bytes; ++i) {
    for (auto bits = static_cast<uint32_t>(bytes[i]); bits != 0;
         bits &= bits - 1) {
      const uint64_t neuron =
          i * 8 + static_cast<uint64_t>(std::countr_zero(bits));
      if (neuron >= num_neurons || set.size() == count) return false;
      set.push_back(static_cast<uint32_t>(neuron));
    }
  }
  bytes = bytes.subspan(num_bytes);
  return set.size() == count;
}

}  // namespace

void AppendActiveSet(std::span<const uint32_t> set, uint32_t num_neurons,
                     std::vector<std::byte>& out) {
  TC_CHECK(num_neurons <= uint32_t{1} << 31);
  const bool as_bits = GapBytes(set, num_neurons) > BitBytes(num_neurons);
  AppendVarint(uint64_t{set.size()} << 1 | (as_bits ? kBits : kGaps), out);
  if (as_bits) {
    AppendBits(set, num_neurons, out);
    return;
  }
  uint32_t next = 0;
  for (const uint32_t neuron : set) {
    AppendVarint(neuron - next, out);
    next = neuron + 1;
  }
}

std::optional<size_t> ReadActiveSet(std::span<const std::byte> bytes,
                                    uint32_t num_neurons,
                                    std::vector<uint32_t>& set) {
  set.clear();
  std::span<const std::byte> rest = bytes;
  const auto head = TakeVarint(rest);
  if (!head.has_value()) return std::nullopt;
  const uint64_t count = *head >> 1;
  if (count > num_neurons) return std::nullopt;
  const bool is_set = (*head & 1) == kBits
                          ? TakeBits(rest, count, num_neurons, set)
                          : TakeGaps(rest, count, num_neurons, set);
  if (!is_set) return std::nullopt;
  return bytes.size() - rest.size();
}

}  // namespace thermocline::neuron

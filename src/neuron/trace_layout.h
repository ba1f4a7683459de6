// What the writer and the reader of trace files share. Byte by byte:
// docs/formats/trace.md.
#ifndef THERMOCLINE_NEURON_TRACE_LAYOUT_H_
#define THERMOCLINE_NEURON_TRACE_LAYOUT_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "base/math.h"
#include "neuron/crc32.h"
#include "neuron/trace.h"

namespace thermocline::neuron::trace_layout {

inline constexpr std::string_view kMagic = "TC-TRACE";
inline constexpr uint32_t kVersion = 2;  // that is written
inline constexpr uint32_t kOldVersion = 1;
// Up to the name.
inline constexpr size_t kFixedHeaderBytes = 48;
inline constexpr size_t kOldFixedHeaderBytes = 36;
inline constexpr size_t kBlockHeadBytes = 8;
inline constexpr size_t kTrailerBytes = 36;
inline constexpr size_t kCrcBytes = 4;

// Of the header.
inline constexpr uint32_t kHasCandidates = 1;
inline constexpr uint32_t kHasUnitBytes = 2;
inline constexpr uint32_t kHasRun = 4;
// Of a run's part: units, lessons, whether it has shares; slots and shares are
// behind it.
inline constexpr size_t kRunHeadBytes = 12;

// Of a token.
inline constexpr uint8_t kBegins = 1;
inline constexpr uint8_t kGenerated = 2;
inline constexpr uint8_t kTogether = 4;

template <typename T>
void Append(T value, std::vector<std::byte>& out) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    out.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
}

inline void AppendText(std::string_view text, std::vector<std::byte>& out) {
  for (const char c : text) out.push_back(static_cast<std::byte>(c));
}

inline void AppendCrc(std::vector<std::byte>& out) { Append(Crc32(out), out); }

// Requires bytes enough.
template <typename T>
T Load(std::span<const std::byte> bytes, size_t at) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value |= static_cast<T>(static_cast<T>(bytes[at + i]) << (8 * i));
  }
  return value;
}

// Whether the last four bytes are the checksum of those before.
inline bool CrcIsRight(std::span<const std::byte> bytes) {
  const size_t size = bytes.size() - kCrcBytes;
  return Crc32(bytes.first(size)) == Load<uint32_t>(bytes, size);
}

// Whether all units of all layers together have a number of bytes.
inline bool UnitBytesFit(const TraceHeader& header) {
  uint64_t sum = 0;
  for (const uint64_t bytes : header.unit_bytes) {
    const auto layer = CheckedMul(bytes, header.num_units());
    const auto more = layer ? CheckedAdd(sum, *layer) : std::nullopt;
    if (bytes == 0 || !more || *more > std::numeric_limits<int64_t>::max()) {
      return false;
    }
    sum = *more;
  }
  return true;
}

// Whether there are units, at least as many as slots, and their shares are
// shares.
inline bool RunFits(const TraceHeader& header, const TraceRun& run) {
  const uint32_t num_units = header.num_units(run);
  const auto is_share = [](float share) {
    return std::isfinite(share) && share >= 0.0f;
  };
  return num_units > 0 && run.lessons <= TraceLessons::kPasses &&
         run.slots.size() == header.num_layers &&
         std::ranges::all_of(
             run.slots, [&](uint32_t slots) { return slots <= num_units; }) &&
         (run.shares.empty() || run.shares.size() == header.num_layers) &&
         std::ranges::all_of(run.shares, [&](const std::vector<float>& shares) {
           return shares.size() == num_units &&
                  std::ranges::all_of(shares, is_share);
         });
}

// "" if it can be written, or could have been.
inline std::string_view WhyBad(const TraceHeader& header) {
  if (header.num_layers < 1 || header.num_layers > kMaxTraceLayers) {
    return "its number of layers is out of range";
  }
  if (header.num_neurons < 1 || header.num_neurons > kMaxTraceNeurons) {
    return "its number of neurons is out of range";
  }
  if (header.num_experts > 0 && header.num_neurons % header.num_experts != 0) {
    return "its experts do not divide its neurons";
  }
  if (header.lookaheads >= uint32_t{1} << (kMaxTraceLookahead + 1)) {
    return "its lookaheads are out of range";
  }
  if (!header.unit_bytes.empty() &&
      (header.unit_bytes.size() != header.num_layers ||
       !UnitBytesFit(header))) {
    return "the bytes of its units are out of range";
  }
  if (header.run && !RunFits(header, *header.run)) {
    return "what it says of its run is out of range";
  }
  if (header.model_name.size() > kMaxTraceName) {
    return "the model's name is too long";
  }
  return "";
}

}  // namespace thermocline::neuron::trace_layout

#endif  // THERMOCLINE_NEURON_TRACE_LAYOUT_H_

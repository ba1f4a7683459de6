// In which forms weights, keys and values stand in a graph.
#ifndef THERMOCLINE_NPU_FORMS_H_
#define THERMOCLINE_NPU_FORMS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace thermocline::npu {

// Of matrices; norms and biases are F32 always.
enum class WeightForm : uint8_t {
  // The file's own numbers, where a device can have them: Q8_0 as i8 and Q6_K
  // as i8 in groups of 32 and 16, Q4_0 as i4 in groups of 32, F16; all others
  // as F16, which the report tells.
  kExact,
  kF16,
  // Quantised anew, from the file's numbers. Symmetric: one scale a row
  // (channel-wise), or for each 128 elements.
  kI8Channel,
  kI4Channel,
  kI4Group128,
  // With a zero point for each row: NITRO's modes, for comparison.
  kI8Asymmetric,
  kI4Asymmetric,
};
// "exact", "f16", "i8-cw", "i4-cw", "i4-g128", "i8-asym", "i4-asym".
std::string_view NameOf(WeightForm form);
std::optional<WeightForm> ParseWeightForm(std::string_view name);
std::string ListWeightForms();  // for messages

// Of the keys and values of past positions. All but kAppend are for comparison.
enum class KvForm : uint8_t {
  kAppend,    // past rows in, new rows out; the caller keeps them
  kScatter,   // all rows in and out; new ones at `positions`
  kRoll,      // all rows in and out; the oldest leave (NITRO 4.1)
  kStateful,  // kRoll, in variables of the request (NITRO as released)
};
std::string_view NameOf(KvForm form);  // "append", "scatter", "roll", ...
std::optional<KvForm> ParseKvForm(std::string_view name);

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_FORMS_H_

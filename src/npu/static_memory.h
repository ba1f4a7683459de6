// The tensors of a model's graphs, all of them in memory of its own.
#ifndef THERMOCLINE_NPU_STATIC_MEMORY_H_
#define THERMOCLINE_NPU_STATIC_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "model/config.h"
#include "npu/chunk_plan.h"
#include "npu/static_kv.h"
#include "npu/static_steps.h"
#include "os/memory.h"

namespace thermocline::npu {

// What is not keys, values or weights: one of each, which all programs share.
struct StaticActivations {
  float* x = nullptr;         // [T, D]
  float* y = nullptr;         // [T, D]
  float* mask = nullptr;      // [T, S + T]
  float* rope_cos = nullptr;  // [T, n / 2]
  float* rope_sin = nullptr;
  // [layers of a step] new rows, and room to put them in another order.
  std::vector<std::pair<uint16_t*, uint16_t*>> new_kv;
  uint16_t* key_rows = nullptr;
  uint16_t* opened = nullptr;  // [T, F of the widest layer]; or null
  float* logits = nullptr;     // [T, V] of the fewest rows; or null
};

// Of options whose contexts are listed.
class StaticMemory {
 public:
  // Bytes that Create takes. Saturates.
  static uint64_t NumBytes(const model::Config& config,
                           const StaticOptions& options);
  // kResourceExhausted.
  static Result<StaticMemory> Create(const model::Config& config,
                                     const StaticOptions& options);

  const StaticActivations& of() const { return activations_; }
  uint64_t num_bytes() const { return buffer_.size(); }

 private:
  StaticActivations activations_;
  os::AlignedBuffer buffer_;
};

// ", some 2.00 GiB of its own for each shape": RoughDeviceBytes, for who reads
// what a model is. Empty: none.
std::string DescribeDeviceBytes(const model::Model& model,
                                const StaticOptions& options);

// Rows [first, first + count) of the caller's to [count, width], and back.
void TakeRows(const StreamRows& x, size_t first, size_t count, size_t width,
              float* to);
void GiveRows(const float* from, size_t first, size_t count, size_t width,
              const StreamRows& x);

// x [rows, width] of which `count` are wanted: the others become the last of
// them. Zeros would do only where a norm has an epsilon that F16 holds: NaN in
// a key is NaN in all scores, whatever the mask closes.
void PadRows(size_t count, size_t rows, size_t width, float* x);

// Where a tensor lies that is no layer's: x, y, mask, rope_cos, rope_sin,
// opened. Null: another name.
std::byte* PlaceOfShared(const StaticActivations& of, std::string_view name);

// Where a tensor of layer l is: `what` of "what_l". Nothing: another name.
std::optional<size_t> LayerOf(std::string_view name, std::string_view what);

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_STATIC_MEMORY_H_

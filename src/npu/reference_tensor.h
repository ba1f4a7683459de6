// Values while the reference (static_device.h) carries out a graph.
#ifndef THERMOCLINE_NPU_REFERENCE_TENSOR_H_
#define THERMOCLINE_NPU_REFERENCE_TENSOR_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "npu/graph.h"

namespace thermocline::npu {

// A value's bytes: shared with those that see them under another shape, or
// someone else's, who outlives it.
struct HostTensor {
  Type type;
  const std::byte* data = nullptr;
  std::shared_ptr<std::byte[]> owner = nullptr;

  std::span<const std::byte> bytes() const { return {data, NumBytes(type)}; }
};

// Of its own memory, which holds anything; `bytes`: where to write.
HostTensor MakeTensor(Type type, std::byte** bytes);
HostTensor CopyOf(const HostTensor& tensor);

// The elements as floats: in place if they are kF32.
class FloatsOf {
 public:
  explicit FloatsOf(const HostTensor& tensor);
  std::span<const float> values() const { return values_; }
  const float* data() const { return values_.data(); }

 private:
  std::vector<float> converted_;
  std::span<const float> values_;
};

// A tensor that is computed in floats. Requires an element of kF32 or kF16.
class FloatTensor {
 public:
  explicit FloatTensor(Type type);
  std::span<float> values() { return values_; }
  float* data() { return values_.data(); }
  // Rounds to the type. Once, at the end.
  HostTensor Finish();

 private:
  std::byte* bytes_ = nullptr;  // before what writes it
  HostTensor tensor_;
  std::vector<float> unrounded_;
  std::span<float> values_;
};

// Elements of 4 bits in a byte each, as kU8, and back to `element`.
HostTensor Widened(const HostTensor& tensor);
HostTensor Narrowed(const HostTensor& tensor, Element element);

// How far apart neighbours along each dimension lie, in elements.
std::vector<int64_t> StridesOf(const Dims& dims);
// The same for an operand that is broadcast to `dims`: 0 where it repeats.
std::vector<int64_t> BroadcastStrides(const Dims& operand, const Dims& dims);

// Goes through a shape, the last dimension fastest, and tells where each of the
// operands is.
template <size_t kNumOperands>
class Odometer {
 public:
  Odometer(std::span<const int64_t> extents,
           std::array<std::vector<int64_t>, kNumOperands> strides)
      : extents_(extents.begin(), extents.end()),
        strides_(std::move(strides)),
        index_(extents.size(), 0) {}

  int64_t at(size_t operand) const { return offsets_[operand]; }
  void Next() {
    for (size_t d = extents_.size(); d-- > 0;) {
      const bool wraps = ++index_[d] == extents_[d];
      const int64_t steps = wraps ? 1 - extents_[d] : 1;
      for (size_t i = 0; i < kNumOperands; ++i)
        offsets_[i] += steps * strides_[i][d];
      if (!wraps) return;
      index_[d] = 0;
    }
  }

 private:
  Dims extents_;
  std::array<std::vector<int64_t>, kNumOperands> strides_;
  Dims index_;
  std::array<int64_t, kNumOperands> offsets_ = {};
};

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_REFERENCE_TENSOR_H_

// Rows as they are in a file, padded.
#ifndef THERMOCLINE_DEVICE_SIM_SIM_LAYOUT_H_
#define THERMOCLINE_DEVICE_SIM_SIM_LAYOUT_H_

#include <cstddef>
#include <cstring>

#include "base/math.h"
#include "device/device.h"
#include "kernels/kernels.h"
#include "tensor/dtype.h"

namespace thermocline::device {

inline size_t SimRowBytes(DType dtype, size_t n) {
  return RoundUp(BytesOf(dtype, n), size_t{16});
}

class SimLayout : public RowLayout {
 public:
  explicit SimLayout(const kernels::KernelTable& kernels) : kernels_(kernels) {}

  // What the host's kernels multiply, in all three ways.
  bool CanCompute(DType dtype) const override {
    return kernels_.matmul(dtype) != nullptr &&
           kernels_.dot_rows(dtype) != nullptr &&
           kernels_.add_rows(dtype) != nullptr;
  }
  size_t RowBytes(DType dtype, size_t n) const override {
    return SimRowBytes(dtype, n);
  }
  void Pack(DType dtype, const std::byte* row, size_t n,
            std::byte* out) const override {
    const size_t num_bytes = BytesOf(dtype, n);
    std::memcpy(out, row, num_bytes);
    std::memset(out + num_bytes, 0, SimRowBytes(dtype, n) - num_bytes);
  }

 private:
  const kernels::KernelTable& kernels_;
};

}  // namespace thermocline::device

#endif  // THERMOCLINE_DEVICE_SIM_SIM_LAYOUT_H_

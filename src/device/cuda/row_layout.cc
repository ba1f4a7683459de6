#include "device/cuda/row_layout.h"

#include "base/check.h"
#include "kernels/cuda/device_rows.h"
#include "kernels/cuda/launch.h"

namespace thermocline::device {
namespace {

class CudaRows : public RowLayout {
 public:
  bool CanCompute(DType dtype) const override { return cuda::CanLaunch(dtype); }

  size_t RowBytes(DType dtype, size_t n) const override {
    TC_CHECK(CanCompute(dtype));
    return cuda::DeviceRowBytes(dtype, n);
  }

  void Pack(DType dtype, const std::byte* row, size_t n,
            std::byte* out) const override {
    TC_CHECK(CanCompute(dtype));
    cuda::PackDeviceRow(dtype, row, n, out);
  }
};

}  // namespace

const RowLayout& CudaRowLayout() {
  static const CudaRows layout;
  return layout;
}

}  // namespace thermocline::device

#include "device/cuda/find_cuda.h"

namespace thermocline::device {
namespace {

constexpr const char* kWithoutCuda =
    "built without CUDA: there was no nvcc to build with";

}  // namespace

Found FindCudaDevices() { return {{}, kWithoutCuda}; }

Result<std::unique_ptr<Device>> OpenCuda(int index, Timeline* /*timeline*/) {
  return Fail(ErrorCode::kNotFound, "cuda{}: {}", index, kWithoutCuda);
}

}  // namespace thermocline::device

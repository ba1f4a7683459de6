#include "engine/device/weight_loader.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/math.h"

namespace thermocline::engine {
namespace {

constexpr uint64_t kOperandAlignment = 16;  // of operations' arguments

}  // namespace

Result<kernels::DeviceMatrix> WeightLoader::Matrix(std::string_view name,
                                                   const TensorView& view) {
  const size_t n = view.shape.ne[0];
  const size_t num_rows = view.shape.num_rows();
  if (!layout_.CanCompute(view.dtype)) {
    return Fail(ErrorCode::kUnsupported, "{} in {} has no kernel on the device",
                name, NameOf(view.dtype));
  }
  kernels::DeviceMatrix matrix = {
      .row_bytes = layout_.RowBytes(view.dtype, n),
      .dtype = view.dtype,
      .num_rows = static_cast<uint32_t>(num_rows),
      .n = static_cast<uint32_t>(n),
  };
  if (matrix.row_bytes > kStagingBytes) {
    return Fail(ErrorCode::kUnsupported,
                "a row of {} has {} elements, more than go to the device at "
                "once",
                name, n);
  }
  std::byte* const to = Take(matrix.num_bytes());
  if (to == nullptr) return matrix;
  const size_t per_copy = kStagingBytes / matrix.row_bytes;
  std::byte* const staging = lane_->pinned_memory();
  for (size_t first = 0; first < num_rows; first += per_copy) {
    const size_t count = std::min(per_copy, num_rows - first);
    for (size_t i = 0; i < count && view.in_memory(); ++i) {
      layout_.Pack(view.dtype, view.row(first + i), n,
                   staging + i * matrix.row_bytes);
    }
    TC_RETURN_IF_ERROR(
        Upload(to + first * matrix.row_bytes, count * matrix.row_bytes));
  }
  matrix.rows = to;
  return matrix;
}

Result<const float*> WeightLoader::Vector(const TensorView& view) {
  if (!view) return nullptr;
  const size_t num_bytes = view.num_bytes();
  std::byte* const to = Take(num_bytes);
  if (to == nullptr) return nullptr;
  for (size_t first = 0; first < num_bytes; first += kStagingBytes) {
    const size_t count = std::min<size_t>(kStagingBytes, num_bytes - first);
    if (view.in_memory()) {
      std::memcpy(lane_->pinned_memory(), view.data + first, count);
    }
    TC_RETURN_IF_ERROR(Upload(to + first, count));
  }
  return reinterpret_cast<const float*>(to);
}

// The place of so many bytes; null when planning.
std::byte* WeightLoader::Take(uint64_t num_bytes) {
  std::byte* const place = to_ == nullptr ? nullptr : to_ + used_;
  used_ += RoundUp(num_bytes, kOperandAlignment);
  return place;
}

// What was packed. The memory it lies in is free again afterwards.
Status WeightLoader::Upload(std::byte* to, size_t num_bytes) {
  device::Device& device = lane_->device();
  TC_RETURN_IF_ERROR(
      device.Copy(lane_->stream(), to, lane_->pinned_memory(), num_bytes));
  return device.Synchronize(lane_->stream());
}

}  // namespace thermocline::engine

// How rows lie on a GPU (kernels/cuda/device_rows.h).
#ifndef THERMOCLINE_DEVICE_CUDA_ROW_LAYOUT_H_
#define THERMOCLINE_DEVICE_CUDA_ROW_LAYOUT_H_

#include "device/device.h"

namespace thermocline::device {

const RowLayout& CudaRowLayout();

}  // namespace thermocline::device

#endif  // THERMOCLINE_DEVICE_CUDA_ROW_LAYOUT_H_

// Whether an operation's arguments are what device_ops.h says.
#ifndef THERMOCLINE_DEVICE_SIM_OP_CHECK_H_
#define THERMOCLINE_DEVICE_SIM_OP_CHECK_H_

#include "base/status.h"
#include "device/device.h"
#include "kernels/device_ops.h"

namespace thermocline::device {

// kCorrupt, naming the operation and what is wrong with it. Of its pointers
// nothing is looked at but for null where one decides (CheckRanges does).
Status CheckOp(const kernels::DeviceOp& op, const RowLayout& layout);

}  // namespace thermocline::device

#endif  // THERMOCLINE_DEVICE_SIM_OP_CHECK_H_

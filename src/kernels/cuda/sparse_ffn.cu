#include "kernels/cuda/sparse_ffn.h"

#include "kernels/cuda/launch.h"

namespace thermocline::cuda {

void Launch(const kernels::SparseFfnArgs& args, void* stream) {
  LaunchSparseList(args, stream);
  LaunchSparseHidden(args, stream);
  LaunchSparseDown(args, stream);
}

}  // namespace thermocline::cuda

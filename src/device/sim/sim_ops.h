// Operations of devices, computed by the host's kernels.
#ifndef THERMOCLINE_DEVICE_SIM_SIM_OPS_H_
#define THERMOCLINE_DEVICE_SIM_SIM_OPS_H_

#include <cstddef>
#include <memory>
#include <new>
#include <vector>

#include "base/status.h"
#include "device/sim/op_check.h"
#include "device/sim/sim_memory.h"
#include "kernels/device_ops.h"
#include "kernels/kernels.h"

namespace thermocline::device {

// Memory that grows and keeps its place meanwhile, 64-byte aligned.
class SimScratch {
 public:
  std::byte* Bytes(size_t num_bytes);
  float* Floats(size_t count) {
    return reinterpret_cast<float*>(Bytes(count * sizeof(float)));
  }

 private:
  struct Free {
    void operator()(std::byte* data) const {
      ::operator delete(data, std::align_val_t{64});
    }
  };
  std::unique_ptr<std::byte[], Free> data_;
  size_t size_ = 0;
};

// Rows of x as the kernels for a type of weights take them.
struct SimInput {
  const std::byte* data;
  size_t stride_bytes;
};

// One function for each struct of device_ops.h. All require what CheckOp and
// CheckRanges require. kCorrupt: indices in memory that lead nowhere.
// Threads  one at a time.
class SimOps {
 public:
  SimOps(const kernels::KernelTable& kernels, const SimMemory& memory)
      : kernels_(kernels), memory_(memory) {}

  Result<SimCounts> Compute(const kernels::DeviceOp& op);

 private:
  Result<SimCounts> Do(const kernels::NormArgs& args);
  Result<SimCounts> Do(const kernels::GemvArgs& args);
  Result<SimCounts> Do(const kernels::RopeArgs& args);
  Result<SimCounts> Do(const kernels::KvAppendArgs& args);
  Result<SimCounts> Do(const kernels::DecodeAttentionArgs& args);
  Result<SimCounts> Do(const kernels::ActivateArgs& args);
  Result<SimCounts> Do(const kernels::AddRowsScaledArgs& args);
  Result<SimCounts> Do(const kernels::PredictArgs& args);
  Result<SimCounts> Do(const kernels::SparseFfnArgs& args);
  Result<SimCounts> Do(const kernels::ArgMaxArgs& args);

  // Good until the next call.
  SimInput InputFor(DType weights, const float* x, size_t n, size_t num_tokens);
  // out [T, num_rows] = x times the rows, + bias.
  void Multiply(const kernels::DeviceMatrix& weights, const float* bias,
                const float* x, size_t num_tokens, float* out);
  // Pages that lie in the buffer.
  size_t NumPages(const kernels::DeviceKv& kv) const;
  // A row of heads and positions with a KV head: sim_attention.cc.
  void AttendHeads(const kernels::DecodeAttentionArgs& args, size_t token_idx,
                   size_t kv_head, size_t first_head, size_t num_heads);

  const kernels::KernelTable& kernels_;
  const SimMemory& memory_;
  SimScratch input_, sums_, partial_, attention_;
};

}  // namespace thermocline::device

#endif  // THERMOCLINE_DEVICE_SIM_SIM_OPS_H_

// One feed-forward layer whose weights and inputs come from a seed, and what it
// has to give.
#ifndef THERMOCLINE_BENCH_OP_LAYER_H_
#define THERMOCLINE_BENCH_OP_LAYER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "kernels/device_ops.h"
#include "tensor/dtype.h"

namespace thermocline::bench {

// Gated, of SiLU: no neuron that is computed comes to nothing.
struct OpShape {
  DType dtype = DType::kQ4_0;  // Q4_0, Q8_0 or F16
  size_t width = 5120;         // D
  size_t num_neurons = 13824;  // F

  // Rows of the matrices: a down matrix has whole blocks along F. The neurons
  // behind F are zeros, and no list names them.
  size_t num_padded() const;
  // Of gate, up and down row.
  size_t neuron_bytes() const { return 3 * BytesOf(dtype, width); }
};

// kInvalidArgument: what is not above zero, not whole blocks, another type.
Status CheckShape(const OpShape& shape);

enum class OpPart : uint8_t { kGate, kUp, kDown };

// All values are multiples of 1/64 that every type holds exactly, along D and
// along F, and inputs those that rounding to 8 bits keeps: what a product is
// off by is its own arithmetic.
class OpLayer {
 public:
  // Inputs that differ; row t of a larger batch is row t % kRows.
  static constexpr size_t kRows = kernels::kDeviceRows;

  // Requires CheckShape.
  OpLayer(const OpShape& shape, uint64_t seed);

  const OpShape& shape() const { return shape_; }
  // A neuron's row of D elements.
  void WriteRow(OpPart part, size_t neuron, std::byte* out) const;
  // Row c of the down matrix [D, num_padded].
  void WriteDownRow(size_t c, std::byte* out) const;
  std::span<const float> x(size_t row) const {
    return {x_.data() + row * shape_.width, shape_.width};
  }

  // kCorrupt, named `what`, unless `out` [D] is the sum over the neurons of
  // `ids` for input `row`, but for rounding. is_dense: hidden elements were
  // rounded to 8 bits too, where weights lie in blocks.
  // Cost: D multiplications for each; the first of a row 3 D F.
  Status Check(std::string_view what, std::span<const uint32_t> ids, size_t row,
               bool is_dense, std::span<const float> out);

 private:
  const int8_t* Values(OpPart part, size_t neuron) const;
  // h of every neuron.
  const std::vector<double>& Hidden(size_t row);

  OpShape shape_;
  std::vector<int8_t> table_;  // what rows are windows of
  std::vector<int8_t> zeros_;
  std::array<std::vector<uint32_t>, 3> begins_;  // of each part and neuron
  std::vector<int8_t> x_quants_;
  std::vector<float> x_;
  std::array<std::vector<double>, kRows> hidden_;
};

}  // namespace thermocline::bench

#endif  // THERMOCLINE_BENCH_OP_LAYER_H_

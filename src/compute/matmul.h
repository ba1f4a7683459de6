// Matrix products of one input with several weights, over all threads.
#ifndef THERMOCLINE_COMPUTE_MATMUL_H_
#define THERMOCLINE_COMPUTE_MATMUL_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "compute/rows.h"
#include "kernels/kernels.h"
#include "os/thread_pool.h"
#include "tensor/tensor_view.h"

namespace thermocline::compute {

class HostWork;
class StageTimeline;
struct StageTimes;

// By which kernels rows are multiplied. A row's result depends on its form, not
// on how many rows are computed with it, or which.
enum class ProductForm : uint8_t {
  kRow,    // those of single rows (KernelTable::matmul)
  kBatch,  // those of a prompt's many (KernelTable::batch_of), if there are any
};

// Memory for the inputs of products (product_scratch.h).
struct ProductScratch {
  // Where inputs of quantised weights are rounded, and those of kBatch packed.
  std::byte* rounded_rows = nullptr;
  // Where products in kBatch unpack weights: tile_bytes per worker.
  std::byte* tiles = nullptr;
  size_t tile_bytes = 0;
};

// What a step of the forward pass computes with. Owns nothing.
struct Compute {
  os::ThreadPool* pool = nullptr;
  const kernels::KernelTable* kernels = nullptr;
  ProductScratch scratch;
  StageTimes* times = nullptr;  // where stages add theirs (stage_times.h)
  HostWork* work = nullptr;     // told of what stages read; null: nobody asks
  StageTimeline* timeline = nullptr;  // where stages add spans; null: nobody
};

// Rounds x [T, n] into compute.scratch.rounded_rows, one activation row after
// the other.
void RoundRows(const Compute& compute, const Rows& x, size_t num_tokens);

// x[t] as weights of this type take it, after RoundRows for those in blocks.
const std::byte* InputFor(const Compute& compute, DType weight_dtype,
                          const Rows& x, size_t token_idx);

// Called with rows [first_row, first_row + num_rows) of a product by the thread
// that has just computed them for all tokens; first_row is a multiple of
// alignment. Empty: nobody asks. Does not own its object.
struct RowsDone {
  void* object = nullptr;
  void (*call)(void* object, size_t first_row, size_t num_rows) = nullptr;
  size_t alignment = 1;

  explicit operator bool() const { return call != nullptr; }
  template <typename Function>
  static RowsDone Of(Function& function, size_t alignment = 1) {
    return {&function,
            [](void* object, size_t first_row, size_t num_rows) {
              (*static_cast<Function*>(object))(first_row, num_rows);
            },
            alignment};
  }
};

// Makes rows of a product's weight when they are needed: rows [first_row,
// first_row + num_rows), row_bytes() apart, good until the worker's next call.
// Empty: they lie in memory. Does not own its object.
struct RowsMaker {
  void* object = nullptr;
  const std::byte* (*call)(void* object, size_t first_row, size_t num_rows,
                           int worker_idx) = nullptr;
  size_t rows_max = 0;  // of a call; first_row is a multiple of it

  explicit operator bool() const { return call != nullptr; }
  template <typename Function>
  static RowsMaker Of(Function& function, size_t rows_max) {
    return {
        &function,
        [](void* object, size_t first_row, size_t num_rows, int worker_idx) {
          return (*static_cast<Function*>(object))(first_row, num_rows,
                                                   worker_idx);
        },
        rows_max};
  }
};

// out[t] = weight * x[t] + bias
struct Product {
  TensorView weight;  // [R, n], a type that the kernels have
  TensorView bias;    // [R] F32, or absent
  Rows out;           // [T, R]
  RowsDone done = {};
  RowsMaker make = {};  // then the weight has type and shape, but no data
};

// Computes `products`, at most kMaxProducts, with the same input in one
// parallel region. An input that meets quantised weights is rounded once, that
// of several rows in a region before. In kBatch, quantised weights are
// multiplied in tiles, whose sums have another order (kernels/kernels.h), and
// so are those in F16 and BF16 beside none that are quantised. While the caller
// rounds the input of one row, the other threads prefetch weights. x: [T, n],
// rows 64-byte aligned, aliases no output. Allocates nothing.
// Cost: reads every weight once, in kRow for few rows (they stay in a cache);
// bit-equal for every thread count and every T.
inline constexpr size_t kMaxProducts = 3;
void MultiplyAll(const Compute& compute, ProductForm form, const Rows& x,
                 size_t num_tokens, std::span<const Product> products);

}  // namespace thermocline::compute

#endif  // THERMOCLINE_COMPUTE_MATMUL_H_

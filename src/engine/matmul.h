// Matrix products of one input with several weights, over all threads.
#ifndef THERMOCLINE_ENGINE_MATMUL_H_
#define THERMOCLINE_ENGINE_MATMUL_H_

#include <cstddef>
#include <span>

#include "engine/rows.h"
#include "kernels/kernels.h"
#include "os/thread_pool.h"
#include "tensor/tensor_view.h"

namespace thermocline::engine {

struct Profile;

// What a step of the forward pass computes with. Owns nothing.
struct Compute {
  os::ThreadPool* pool = nullptr;
  const kernels::KernelTable* kernels = nullptr;
  // Where inputs of quantised weights are rounded or packed: room for a batch
  // of the widest input (Scratch::rounded_rows).
  std::byte* rounded_rows = nullptr;
  // Where products with many tokens unpack weights: tile_bytes per worker.
  std::byte* tiles = nullptr;
  size_t tile_bytes = 0;
  // Tokens of the batch that is computed, or SessionOptions::products_batch.
  // They choose between the forms of products and of attention, also where only
  // some of them take part (the experts of a mixture, the head): a token's
  // result does not depend on how many those are. 0: each product's own number
  // of tokens.
  size_t batch_tokens = 0;
  size_t TokensThatChoose(size_t num_tokens) const {
    return batch_tokens > 0 ? batch_tokens : num_tokens;
  }
  // Several tokens are computed, of which an expert may get one.
  bool is_batch = false;
  Profile* profile = nullptr;  // where stages add their time (profile.h)
};

// Rounds x [T, n] into compute.rounded_rows, one activation row after the
// other.
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
// of a batch in a region before. In batches of kernels->batch.min_tokens tokens
// and more, quantised weights are multiplied in tiles, whose sums have another
// order (kernels/kernels.h), and from large_batch.min_tokens on otherwise
// again; those in F16 and BF16, beside none that are quantised, from
// float_batch.min_tokens on. While the caller rounds the input of one token,
// the other threads ask for weights. x: [T, n], rows 64-byte aligned, aliases
// no output. Allocates nothing.
// Cost: reads every weight once; bit-equal for every thread count.
inline constexpr size_t kMaxProducts = 3;
void MultiplyAll(const Compute& compute, const Rows& x, size_t num_tokens,
                 std::span<const Product> products);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_MATMUL_H_

#include "compute/matmul.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/check.h"
#include "base/math.h"
#include "compute/stream_rows.h"
#include "kernels/activation_row.h"
#include "os/cache_line.h"
#include "os/node_shares.h"
#include "tensor/dtype.h"

namespace thermocline::compute {
namespace {

// What one thread takes at a time: what kernels like to read, long enough to
// hide the taking (~100 ns). Small products have shorter pieces, as many as
// threads can share evenly, so that the last one to finish is not waited for.
constexpr size_t kPieceBytesMin = 32 << 10;
constexpr size_t kPiecesPerThread = 4;
// Where kernels leave reading ahead to the CPU, which is slow to begin.
constexpr size_t kNoPrefetchPiecesPerThread = 2;
// So short a product, some 13 us for two threads, is one piece for each: the
// first of a sparse llama-1b's predictors had four for one thread and three for
// the other, and its two products took 1.03 to 1.04 times as long.
constexpr size_t kShortProductBytes = 512 << 10;
// A piece that several tokens pass over again and again stays in the cache.
constexpr size_t kSeveralTokensBytes = 128 << 10;
// Pieces end at whole cache lines of the output.
constexpr size_t kRowAlignment = os::kCacheLine / sizeof(float);
// An input of one token that is asked for whole, before it is rounded: threads
// have made it, and have copies of what its place held before.
constexpr size_t kPrefetchedRowBytes = 16 << 10;
// What other threads ask for at most while the caller prepares the input (some
// 2 us between CPUs that share no cache: a token is 1.03 times as fast so
// there), and how much between two looks at whether it has.
constexpr size_t kPrefetchedWhileWaiting = 64 << 10;
constexpr size_t kPrefetchedAtOnce = 1 << 10;
// In a product with many tokens a piece passes over the whole input, so it is
// longer: a few per thread, of at least and at most these numbers of rows.
constexpr size_t kBatchPiecesPerThread = 4;
constexpr size_t kBatchRowsMin = 64;
constexpr size_t kBatchRowsMax = 512;

// The input as one weight type takes it.
struct Input {
  const std::byte* rows;
  size_t stride_bytes;
  // What it is packed for; null: for kernels->matmul.
  const kernels::BatchMatMul* batch;
};

// As many rows as most_rows, or fewer where every thread then gets about as
// many pieces, none too short.
size_t SharedEvenly(size_t num_rows, size_t most_rows, size_t row_bytes,
                    size_t num_threads, size_t alignment) {
  const size_t num_pieces = RoundUp(CeilDiv(num_rows, most_rows), num_threads);
  const size_t even = RoundUp(CeilDiv(num_rows, num_pieces), alignment);
  return even * row_bytes < kPieceBytesMin ? most_rows
                                           : std::min(even, most_rows);
}

size_t PiecesPerThread(size_t product_bytes, size_t call_bytes) {
  if (product_bytes <= kShortProductBytes) return 1;
  return call_bytes > kernels::kPrefetchedCallBytes ? kNoPrefetchPiecesPerThread
                                                    : kPiecesPerThread;
}

size_t RowsPerPiece(const Compute& compute, const Product& product,
                    const Input& input, size_t num_tokens) {
  const TensorView& weight = product.weight;
  if (product.make) return product.make.rows_max;
  if (input.batch != nullptr) {
    const size_t num_pieces = kBatchPiecesPerThread *
                              static_cast<size_t>(compute.pool->num_threads());
    return std::clamp(
        RoundUp<size_t>(CeilDiv<size_t>(weight.shape.num_rows(), num_pieces),
                        kBatchRowsMin),
        kBatchRowsMin, kBatchRowsMax);
  }
  const size_t row_bytes = std::max<size_t>(weight.row_bytes(), 1);
  const size_t most_bytes = num_tokens == 1
                                ? compute.kernels->call_bytes(weight.dtype)
                                : kSeveralTokensBytes;
  const size_t num_pieces = PiecesPerThread(weight.num_bytes(), most_bytes) *
                            static_cast<size_t>(compute.pool->num_threads());
  const size_t piece_bytes = std::clamp<size_t>(weight.num_bytes() / num_pieces,
                                                kPieceBytesMin, most_bytes);
  const size_t alignment = std::max(kRowAlignment, product.done.alignment);
  const size_t most_rows =
      RoundUp(std::max<size_t>(piece_bytes / row_bytes, 1), alignment);
  const size_t num_rows =
      SharedEvenly(weight.shape.num_rows(), most_rows, row_bytes,
                   static_cast<size_t>(compute.pool->num_threads()), alignment);
  return num_tokens == 1 ? WithStreamsApart(num_rows, row_bytes, alignment)
                         : num_rows;
}

void MultiplyPiece(const Compute& compute, const Product& product,
                   const Input& input, size_t num_tokens,
                   const os::ElemRange& rows, int worker_idx) {
  const size_t first_row = rows.begin;
  const size_t num_rows = rows.size();
  const TensorView& weight = product.weight;
  kernels::MatMulArgs args;
  args.weights = product.make
                     ? product.make.call(product.make.object, first_row,
                                         num_rows, worker_idx)
                     : weight.row(first_row);
  args.row_bytes = weight.row_stride();
  args.num_rows = num_rows;
  args.n = weight.shape.ne[0];
  args.x = input.rows;
  args.x_stride_bytes = input.stride_bytes;
  args.num_tokens = num_tokens;
  args.out = product.out.data + first_row;
  // The CPU that read it last has a copy, which would hold up the next take.
  if (num_tokens == 1) os::PrefetchForWrite(args.out, num_rows * sizeof(float));
  args.out_stride = product.out.stride;
  if (input.batch != nullptr) {
    args.scratch = compute.scratch.tiles +
                   static_cast<size_t>(worker_idx) * compute.scratch.tile_bytes;
    input.batch->multiply(weight.dtype)(args);
  } else {
    compute.kernels->matmul(weight.dtype)(args);
  }
  if (product.bias) {
    const float* bias = reinterpret_cast<const float*>(product.bias.data);
    for (size_t t = 0; t < num_tokens; ++t) {
      compute.kernels->add(bias + first_row, num_rows,
                           product.out.row(t) + first_row);
    }
  }
  if (product.done) {
    product.done.call(product.done.object, first_row, num_rows);
  }
}

// How each product is cut.
struct Pieces {
  std::array<size_t, kMaxProducts> counts = {};
  std::array<size_t, kMaxProducts> rows_per_piece = {};
};

struct Piece {
  size_t product_idx;
  os::ElemRange rows;
};

// Pieces of all products are numbered through node by node: first every
// product's share of the first NUMA node. ParallelFor cuts the numbers by the
// same formula, so a row is read by the same node for every token, up to a
// piece per product at the borders and what idle nodes take over.
Piece FindPiece(const Compute& compute, std::span<const Product> products,
                const Pieces& pieces, size_t idx) {
  const std::span<const size_t> first_workers = compute.pool->first_workers();
  for (size_t node = 0;; ++node) {
    TC_DCHECK(node + 1 < first_workers.size());
    for (size_t i = 0; i < kMaxProducts; ++i) {
      const os::ElemRange share =
          os::NodeShare(pieces.counts[i], node, first_workers);
      if (idx < share.size()) {
        const size_t first_row = (share.begin + idx) * pieces.rows_per_piece[i];
        return {
            i,
            {first_row, std::min<size_t>(first_row + pieces.rows_per_piece[i],
                                         products[i].weight.shape.num_rows())}};
      }
      idx -= share.size();
    }
  }
}

// Prefetches what a piece reads first, until it can be computed.
template <typename IsReady>
void PrefetchAhead(const Product& product, const os::ElemRange& rows,
                   IsReady&& is_ready) {
  if (product.make) return;
  const std::byte* begin = product.weight.row(rows.begin);
  const size_t num_bytes = std::min(rows.size() * product.weight.row_stride(),
                                    kPrefetchedWhileWaiting);
  for (size_t i = 0; i < num_bytes && !is_ready(); i += kPrefetchedAtOnce) {
    os::PrefetchForRead(begin + i, kPrefetchedAtOnce);
  }
}

Pieces CutAll(const Compute& compute, std::span<const Product> products,
              std::span<const Input> inputs, size_t num_tokens) {
  Pieces pieces;
  for (size_t i = 0; i < products.size(); ++i) {
    const TensorView& weight = products[i].weight;
    pieces.rows_per_piece[i] =
        RowsPerPiece(compute, products[i], inputs[i], num_tokens);
    pieces.counts[i] =
        CeilDiv<size_t>(weight.shape.num_rows(), pieces.rows_per_piece[i]);
  }
  return pieces;
}

// Packs x [T, n] into compute.scratch.rounded_rows.
void PackBatch(const Compute& compute, const kernels::BatchMatMul& batch,
               const Rows& x, size_t num_tokens) {
  const size_t group_bytes = batch.group_bytes(x.width);
  compute.pool->ParallelFor(
      CeilDiv(num_tokens, batch.group_tokens), 1,
      [&](size_t begin, size_t end, int /*worker_idx*/) {
        for (size_t group = begin; group < end; ++group) {
          const size_t token = group * batch.group_tokens;
          batch.pack(x.row(token), x.stride,
                     std::min(batch.group_tokens, num_tokens - token), x.width,
                     compute.scratch.rounded_rows + group * group_bytes);
        }
      });
}

bool IsQuantised(const Product& product) {
  return !IsFloat(product.weight.dtype);
}

// Whether it computes the product; null: kernels->matmul does.
bool IsOf(const kernels::BatchMatMul* batch, const Product& product) {
  return batch != nullptr && batch->multiply(product.weight.dtype) != nullptr &&
         product.weight.shape.ne[0] % kernels::BatchMatMul::kElems == 0;
}

// What computes products in kBatch: all quantised ones, or, where there are
// none, those in F16 and BF16. x has room for one packed form.
const kernels::BatchMatMul* ChooseBatch(const Compute& compute,
                                        std::span<const Product> products) {
  const kernels::KernelTable& kernels = *compute.kernels;
  const auto is_of = [&](const Product& product) {
    return IsOf(IsQuantised(product) ? &kernels.batch : &kernels.float_batch,
                product);
  };
  if (!std::ranges::any_of(products, IsQuantised)) {
    return std::ranges::any_of(products, is_of) ? &kernels.float_batch
                                                : nullptr;
  }
  const bool has_all =
      std::ranges::all_of(products, [&](const Product& product) {
        return !IsQuantised(product) || is_of(product);
      });
  return has_all ? &kernels.batch : nullptr;
}

// Rounds or packs x for those products that want that.
void PrepareInput(const Compute& compute, const Rows& x, size_t num_tokens,
                  std::span<const Product> products,
                  const kernels::BatchMatMul* batch) {
  if (batch != nullptr) {
    PackBatch(compute, *batch, x, num_tokens);
  } else if (std::ranges::any_of(products, IsQuantised)) {
    RoundRows(compute, x, num_tokens);
  }
}

// Where each of the products finds x, prepared.
std::array<Input, kMaxProducts> FindInputs(const Compute& compute,
                                           const Rows& x,
                                           std::span<const Product> products,
                                           const kernels::BatchMatMul* batch) {
  std::array<Input, kMaxProducts> inputs = {};
  for (size_t i = 0; i < products.size(); ++i) {
    if (IsOf(batch, products[i])) {
      inputs[i] = {compute.scratch.rounded_rows, batch->group_bytes(x.width),
                   batch};
    } else if (IsQuantised(products[i])) {
      inputs[i] = {compute.scratch.rounded_rows,
                   kernels::ActivationRowBytes(x.width), nullptr};
    } else {
      inputs[i] = {reinterpret_cast<const std::byte*>(x.data),
                   x.stride * sizeof(float), nullptr};
    }
  }
  return inputs;
}

}  // namespace

void RoundRows(const Compute& compute, const Rows& x, size_t num_tokens) {
  const size_t row_bytes = kernels::ActivationRowBytes(x.width);
  if (num_tokens == 1 && row_bytes <= kPrefetchedRowBytes) {
    os::PrefetchForRead(x.row(0), x.width * sizeof(float));
    os::PrefetchForWrite(compute.scratch.rounded_rows, row_bytes);
  }
  compute.pool->ParallelFor(
      num_tokens, 1, [&](size_t begin, size_t end, int /*worker_idx*/) {
        for (size_t t = begin; t < end; ++t) {
          compute.kernels->quantize_activations(
              x.row(t), x.width, compute.scratch.rounded_rows + t * row_bytes);
        }
      });
}

const std::byte* InputFor(const Compute& compute, DType weight_dtype,
                          const Rows& x, size_t token_idx) {
  if (IsFloat(weight_dtype)) {
    return reinterpret_cast<const std::byte*>(x.row(token_idx));
  }
  return compute.scratch.rounded_rows +
         token_idx * kernels::ActivationRowBytes(x.width);
}

void MultiplyAll(const Compute& compute, ProductForm form, const Rows& x,
                 size_t num_tokens, std::span<const Product> products) {
  TC_CHECK(products.size() <= kMaxProducts);
  const kernels::BatchMatMul* batch =
      form == ProductForm::kBatch ? ChooseBatch(compute, products) : nullptr;
  TC_DCHECK(std::ranges::all_of(products, [&](const Product& product) {
    return product.weight.shape.ne[0] == x.width;
  }));
  const std::array<Input, kMaxProducts> inputs =
      FindInputs(compute, x, products, batch);
  const Pieces pieces = CutAll(compute, products, inputs, num_tokens);

  auto prepare = [&] { PrepareInput(compute, x, num_tokens, products, batch); };
  auto multiply = [&](size_t idx, size_t /*end*/, int worker_idx) {
    const Piece piece = FindPiece(compute, products, pieces, idx);
    MultiplyPiece(compute, products[piece.product_idx],
                  inputs[piece.product_idx], num_tokens, piece.rows,
                  worker_idx);
  };
  const size_t num_pieces =
      std::reduce(pieces.counts.begin(), pieces.counts.end());
  if (num_tokens > 1) {  // which all threads prepare
    prepare();
    compute.pool->ParallelFor(num_pieces, 1, multiply);
    return;
  }
  auto prefetch_ahead = [&](size_t idx, size_t /*end*/, auto&& is_ready) {
    const Piece piece = FindPiece(compute, products, pieces, idx);
    PrefetchAhead(products[piece.product_idx], piece.rows, is_ready);
  };
  compute.pool->ParallelFor(num_pieces, 1, multiply, prepare, prefetch_ahead);
}

}  // namespace thermocline::compute

// Every CPU operation behind one table of functions, one table per ISA.
//
// Kernels own no thread, memory or file: they get pointers and a sub-range, so
// the caller decides parallelism. None of them allocates, locks, logs or fails.
// All are safe on disjoint outputs. A result depends on the inputs, the
// function and the ISA only, never on how the caller cut the work: each output
// element is computed by the same instruction sequence whatever the range, so
// logits are bit-equal for every thread count. Of functions for the same,
// matmul() and the multiply() of batch and float_batch differ by rounding, and
// so do attention() of few heads, of many and large_batch_attention().
// Inputs and outputs do not alias unless said.
//
// kernels/ref holds the scalar table, the reference; kernels/cpu the others.
#ifndef THERMOCLINE_KERNELS_KERNELS_H_
#define THERMOCLINE_KERNELS_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/isa.h"
#include "tensor/dtype.h"
#include "tensor/op_kinds.h"

namespace thermocline::kernels {

// out[t * out_stride + r] = dot(weight row r, x[t]) for r < num_rows, t < T.
// Cost: reads num_rows * row_bytes once; DRAM-bound at T = 1.
struct MatMulArgs {
  const std::byte* weights;  // [num_rows, n], rows row_bytes apart, unaligned
  size_t row_bytes;
  size_t num_rows;
  size_t n;            // elements per row; a multiple of the block
  const std::byte* x;  // float weight types: f32 [T, n]; quantised: T
                       // activation rows (activation_row.h); 64-byte aligned
  size_t x_stride_bytes;
  size_t num_tokens;  // T >= 1
  float* out;
  size_t out_stride;             // in floats
  std::byte* scratch = nullptr;  // BatchMatMul only
};
using MatMulFn = void (*)(const MatMulArgs& args);

// A call with one token and at least so many rows reads them in streams, each a
// part of the rows from its first to its last, and prefetches what lies
// behind them. (F16 on AMD: six, where the input is long.)
constexpr size_t kStreamRows = 16;
constexpr size_t kStreams = 4;
// Streams that begin at one place of pages of so many bytes stay side by side
// in them and are slower to read.
constexpr size_t kPageBytes = 4096;
// How far ahead of its use a call prefetches a stream at most: what a stream
// begins with is for the caller to prefetch.
constexpr size_t kStreamAheadBytes = 3 << 10;

// KernelTable::call_bytes() where streams are prefetched, and where the
// hardware reads them ahead alone (Zen 4, F16, one thread: 0.88, 0.95 and 1.0
// of a read loop with 128, 256 and 512 KiB).
constexpr size_t kPrefetchedCallBytes = 256 << 10;
constexpr size_t kNoPrefetchCallBytes = 1 << 20;

// Products with the many tokens of a prompt, bound by arithmetic; right, if
// slower than matmul(), for a few. Weights stay as they lie in
// the file: a kernel unpacks a tile of them once and multiplies it with all
// tokens. The input has a form of its own, the same for every weight type that
// it has a function for, packed in groups of tokens.
// The sums of a token have another order than matmul()'s, and may round their
// inputs otherwise, but depend on that token alone: neither on T nor on its
// neighbours, and not on the rows that a call computes.
struct BatchMatMul {
  static constexpr size_t kElems = 32;  // what rows are multiples of

  size_t group_tokens = 1;  // packed together

  // Bytes of one group of tokens of n elements; a multiple of 64 that does not
  // fall as n grows (nor does scratch_bytes).
  size_t (*group_bytes)(size_t n) = nullptr;

  // Packs one group: x [num_tokens, n], 1 <= num_tokens <= group_tokens, rows
  // x_stride floats apart; missing tokens become zeros. out: 64-byte aligned.
  void (*pack)(const float* x, size_t x_stride, size_t num_tokens, size_t n,
               std::byte* out) = nullptr;

  // What a call needs in MatMulArgs::scratch, 64-byte aligned; may be 0.
  size_t (*scratch_bytes)(size_t n) = nullptr;

  // As a MatMulFn whose x is packed groups, x_stride_bytes = group_bytes(n);
  // n % kElems == 0. Null where the type has none. Reads weights once if
  // num_tokens <= 512.
  MatMulFn multiply_by_type[64] = {};
  MatMulFn multiply(DType weight_dtype) const {
    return multiply_by_type[static_cast<uint32_t>(weight_dtype)];
  }

  // Whether an ISA has one.
  explicit operator bool() const { return pack != nullptr; }
};

// Cache lines that a caller reads soon. A kernel that is given a list asks
// memory for about as many bytes of it as it reads itself, spread over its
// work, and moves `next` on: the caller goes on with what is left. So
// arithmetic on what has come overlaps with reading what comes. For rows that
// lie apart the order matters: the first lines of some 8 rows, then their
// second ones, and so on, read a tenth to a fifth faster than row after row,
// whose waits for new pages follow each other.
struct LinesAhead {
  const uintptr_t* next = nullptr;  // addresses; nothing is read through them
  const uintptr_t* end = nullptr;
  // Else into the second: KernelTable::lists_into_first_level.
  bool into_first_level = false;
};

// Where a kernel may leave an input as it reads it, for further calls with the
// same x: calls with a few rows spend a tenth of their time on that. Good while
// what lies at x stays. All of it is the kernels' own.
struct PreparedInput {
  static constexpr size_t kMaxBytes = 24 * 1024;

  const std::byte* x = nullptr;  // null: nothing
  size_t n = 0;
  const void* made_by = nullptr;  // types are prepared differently
  alignas(64) std::byte bytes[kMaxBytes];
};

// out[t * out_stride + i] = dot(row ids[i], x[t]) for i < num_rows, t < T: the
// rows that a list names. The same bits as MatMulFn gives for the row.
// Cost: reads the rows once, wherever they are; those of memory should have
// been prefetched before (LinesAhead).
struct DotRowsArgs {
  const std::byte* rows;  // row r at rows + r * row_bytes, unaligned
  size_t row_bytes;
  const uint32_t* ids;  // [num_rows], any order
  size_t num_rows;      // may be 0
  size_t n;             // elements per row; a multiple of the block
  const std::byte* x;   // as MatMulArgs::x
  size_t x_stride_bytes;
  size_t num_tokens;  // T, 1 to kListedTokens
  float* out;
  size_t out_stride;                  // in floats
  LinesAhead* ahead = nullptr;        // may be null
  PreparedInput* prepared = nullptr;  // may be null; of one token
};
using DotRowsFn = void (*)(const DotRowsArgs& args);
inline constexpr size_t kListedTokens = 8;

// out[c] += sum over i < num_rows of coefs[i] * row_i[c], c < n: the product of
// listed rows with a vector, the other way round than MatMulArgs. Each out[c]
// takes its terms in the list's order: a caller may cut the columns (at whole
// blocks), and the list at multiples of kAddRowsGroup, without changing a bit.
// As MatMulFn rounds x, an ISA may round what the quants of Q4_0 and Q4_K are
// multiplied with, coefs[i] times the scale of row_i's block of 32, to eight
// bits: against the largest of the group's kAddRowsGroup rows in that block.
// Cost: reads num_rows * n elements once; DRAM-bound.
struct AddRowsArgs {
  const std::byte* rows;  // row r at rows + r * row_bytes, unaligned
  size_t row_bytes;
  const uint32_t* ids;          // row_i is row ids[i]; null: row i
  const float* coefs;           // [num_rows]
  size_t num_rows;              // may be 0
  size_t n;                     // elements per row; a multiple of the block
  float* out;                   // [n]
  LinesAhead* ahead = nullptr;  // may be null
};
using AddRowsFn = void (*)(const AddRowsArgs& args);
inline constexpr size_t kAddRowsGroup = 8;

// Attention of query heads that share one KV head:
//   s[p] = scale * dot(q, k[p]);  out = sum_p softmax(s)[p] * v[p]
// over the positions that a query sees; scores may have a cap.
// It is computed piece by piece of the positions: attention() gives the sums
// over one piece, merge_attention() adds two of them, finish_attention() turns
// a sum into the output. With pieces cut at multiples of kAttentionPiece and
// merged in their order, a query's output has the same bits whatever tokens it
// shares calls with, and whoever computes the pieces, as long as all sums are
// finite; it may depend on how many heads share a call.
inline constexpr size_t kAttentionPiece = 256;   // positions
inline constexpr size_t kAttentionQueries = 64;  // of one call, at most
inline constexpr size_t kAttentionPieces = 4;    // likewise

// Keys and values of a head lie in pages of so many positions, each anywhere in
// memory. A piece is kAttentionPiece / kKvPage pages.
inline constexpr size_t kKvPage = 64;
static_assert(kAttentionPiece % kKvPage == 0);

// AttentionArgs::first_position of calls whose tokens see all positions.
inline constexpr int64_t kNoWindow = INT64_MIN / 2;

// How keys and values lie in a KV cache: position after position, as
// store_row() writes them, or each page as a group (kv_group.h).
enum class KvOrder { kRows, kGroups };

// A partial sum of a query, 64-byte aligned, where m is the largest s[p]:
//   sum_p exp(s[p] - m) * v[p]   [v_width], then zeros up to a multiple of 16
//   m, sum_p exp(s[p] - m)       in the last 16 floats
// A query that sees nothing has the neutral one: zeros, and m is -infinity.
[[gnu::always_inline]] constexpr size_t PartialAttentionFloats(size_t v_width) {
  return (v_width + 15) / 16 * 16 + 16;
}

// From the scores of a query to those of the next. More than the piece: the
// rows do not all meet in a few sets of the cache.
inline constexpr size_t kAttentionScoresStride = kAttentionPiece + 16;

// A call's scratch: scores, queries, a few keys and values as floats, or some
// of either in AMX tiles, and tiles beside them.
inline constexpr size_t kUnpackedKeys = 4;
inline constexpr size_t kUnpackedValues = 16;
inline constexpr size_t kAttentionTileFloats = 128 * kAttentionQueries;
[[gnu::always_inline]] constexpr size_t AttentionScratchFloats(size_t k_width,
                                                               size_t v_width) {
  return kAttentionQueries * kAttentionScoresStride +
         (kAttentionQueries + kUnpackedKeys) * ((k_width + 15) / 16 * 16) +
         kUnpackedValues * ((v_width + 15) / 16 * 16) +
         32 * (k_width > 128 ? k_width : 128) + kAttentionTileFloats;
}

// The queries of num_tokens consecutive tokens, num_heads of each. Reads each
// key and each value once. Positions count from the call's first one.
// As MatMulFn rounds x, the queries of calls with groups are rounded, except by
// the reference: scale * q to eight bits, against the largest of its block of
// 32. And so is what a value's quants are multiplied with there, e^(s - m)
// times the scale of their block: by at most 1.5 * 2^-15 of the largest of them
// for that query in any block of 64 positions.
struct AttentionArgs {
  const float* q;   // of token t, head g: q + t * q_stride + g * k_width
  size_t q_stride;  // in floats
  size_t num_tokens;
  size_t num_heads;  // num_tokens * num_heads <= kAttentionQueries
  DType k_dtype;     // F32, F16 or Q8_0, and so v_dtype
  DType v_dtype;
  KvOrder kv_order = KvOrder::kRows;
  // The pages of all positions in their order, those of all pieces in one list:
  // position p at k[p / kKvPage] + p % kKvPage * k_stride_bytes, unaligned; or
  // k[i] is group i of kKvPage * k_stride_bytes bytes, 64-byte aligned. The
  // last page may be filled in part. What lies in pages that no token sees is
  // not read: their pointers may be null.
  const std::byte* const* k;
  size_t k_stride_bytes;
  const std::byte* const* v;  // likewise
  size_t v_stride_bytes;
  size_t k_width;  // a multiple of 32 for Q8_0; any otherwise
  size_t v_width;
  size_t num_positions;  // that token 0 sees but for its window, >= 1
  bool is_diagonal;      // token t sees num_positions + t, else all the same;
                         // at most kAttentionPiece
  float scale;
  float* scratch;  // AttentionScratchFloats(), 64-byte aligned
  float* out;      // [num_tokens * num_heads] partial sums, those of a token's
                   // heads together, PartialAttentionFloats() apart
  // More than one: whole pieces that follow each other, read side by side,
  // which memory gives faster than one after the other; all queries see all of
  // kAttentionPiece positions. At most kAttentionPieces, and num_pieces *
  // num_tokens * num_heads at most kAttentionQueries.
  size_t num_pieces = 1;
  size_t out_piece_stride = 0;  // in floats, from a piece's sums to the next's
  // The first page of keys of the call that follows, prefetched early; null if
  // there is none.
  const std::byte* next_k = nullptr;
  // Unless 0, s[p] is logit_cap * tanh(s[p] / logit_cap) instead.
  float logit_cap = 0.0f;
  // Token t sees no position before first_position + t; it may see none at all.
  // With more than one piece, no token's window begins after their first
  // position.
  int64_t first_position = kNoWindow;

  // Query query_idx, of all tokens' heads in turn, sees the positions
  // [FirstOf(), PositionsOf()), if any.
  [[gnu::always_inline]] size_t PositionsOf(size_t query_idx) const {
    return num_positions + (is_diagonal ? query_idx / num_heads : 0);
  }
  [[gnu::always_inline]] size_t FirstOf(size_t query_idx) const {
    const int64_t first =
        first_position + static_cast<int64_t>(query_idx / num_heads);
    return first > 0 ? static_cast<size_t>(first) : 0;
  }
  [[gnu::always_inline]] bool SeesNothing(size_t query_idx) const {
    return FirstOf(query_idx) >= PositionsOf(query_idx);
  }
  // No token, then: none has more positions behind its window's beginning than
  // the first one.
  [[gnu::always_inline]] bool NothingIsSeen() const { return SeesNothing(0); }
  // Whether some token does not see a position because of its window.
  [[gnu::always_inline]] bool HasWindow() const {
    return first_position + static_cast<int64_t>(num_tokens) > 1;
  }
  // The first position of the first page that some token sees part of: no
  // window begins earlier than the first token's.
  [[gnu::always_inline]] size_t FirstInPages() const {
    return FirstOf(0) / kKvPage * kKvPage;
  }
};

struct KernelTable {
  Isa isa;

  // Null where the type cannot be computed. Use matmul().
  MatMulFn matmul_by_type[64];
  MatMulFn matmul(DType weight_dtype) const {
    return matmul_by_type[static_cast<uint32_t>(weight_dtype)];
  }

  // What a call of matmul() with one token should read, where there is so much:
  // a CPU that reads streams ahead by itself takes a while to notice them.
  size_t call_bytes_by_type[64];
  size_t call_bytes(DType weight_dtype) const {
    return call_bytes_by_type[static_cast<uint32_t>(weight_dtype)];
  }

  // Whether lines of LinesAhead are read faster from the first level of the
  // cache than from the second, while a few rows fit there.
  bool lists_into_first_level;

  // Without functions where an ISA has none.
  BatchMatMul batch;        // of weights in blocks
  BatchMatMul float_batch;  // of weights in F16 and BF16

  // What multiplies a prompt's tokens with weights of the type alone; null:
  // matmul().
  const BatchMatMul* batch_of(DType weight_dtype) const {
    const BatchMatMul& form = IsFloat(weight_dtype) ? float_batch : batch;
    return form.multiply(weight_dtype) != nullptr ? &form : nullptr;
  }

  // Likewise null. Use dot_rows().
  DotRowsFn dot_rows_by_type[64];
  DotRowsFn dot_rows(DType weight_dtype) const {
    return dot_rows_by_type[static_cast<uint32_t>(weight_dtype)];
  }

  // Likewise null. Use add_rows().
  AddRowsFn add_rows_by_type[64];
  AddRowsFn add_rows(DType row_dtype) const {
    return add_rows_by_type[static_cast<uint32_t>(row_dtype)];
  }

  // Rounds x [n] into the activation row at `out` (ActivationRowBytes(n)).
  void (*quantize_activations)(const float* x, size_t n, std::byte* out);

  // out[i] = x[i] / sqrt(mean(x^2) + eps) * weight[i]. out may be x.
  void (*rms_norm)(const float* x, const float* weight, float eps, size_t n,
                   float* out);

  // out[i] = (x[i] - mean) / sqrt(var + eps) * weight[i] + bias[i]; bias may
  // be null; var divides by n. out may be x.
  void (*layer_norm)(const float* x, const float* weight, const float* bias,
                     float eps, size_t n, float* out);

  // Rotates each of num_heads heads of `head_width` contiguous floats in place:
  // pair i < num_pairs by the angle whose cosine and sine are given, pairs as
  // in `kind`; elements past 2 * num_pairs stay.
  void (*rope)(float* heads, size_t num_heads, size_t head_width, RopeKind kind,
               const float* cos, const float* sin, size_t num_pairs);

  // out[i] = f(gate[i]) * up[i]; kDRelu: relu(gate) * relu(up). With a null
  // gate: out[i] = f(up[i]) (not if it needs one). out may be gate or up.
  void (*activate)(Activation activation, float threshold, const float* gate,
                   const float* up, size_t n, float* out);

  // Packs signs: bit i % 64 of words[i / 64] is x[i] < 0; the bits behind x [n]
  // are 0. (SparseInfer: what a product's sign is guessed from.)
  void (*pack_signs)(const float* x, size_t n, uint64_t* words);

  // out[r] = number of bits in which row r differs from x; rows and x have
  // num_words words. Cost: reads the rows once; DRAM-bound.
  void (*count_differences)(const uint64_t* rows, size_t num_rows,
                            const uint64_t* x, size_t num_words, uint32_t* out);

  // y[i] += x[i]
  void (*add)(const float* x, size_t n, float* y);

  // Writes x [n] as F32, F16 (nearest even) or Q8_0 at out: a row of the KV
  // cache. n % 32 == 0 for Q8_0. What the type cannot hold, and infinity,
  // become NaN: it must show in the output.
  void (*store_row)(DType dtype, const float* x, size_t n, std::byte* out);

  // Where many heads share keys in F16, queries and weights may be rounded
  // (cpu/amx_attention.h); a call with sums that are not finite is not.
  void (*attention)(const AttentionArgs& args);

  // The same for batches that large_batch takes, or would if their weights were
  // in blocks and not float_batch's; likewise rounded otherwise
  // (cpu/amx_attention.h): a query's output has the same bits in all such
  // calls, as long as all of them are finite. Null where an ISA has none:
  // attention().
  void (*large_batch_attention)(const AttentionArgs& args);

  // sum += partial, the sum over later positions. Either may be neutral, or
  // both.
  void (*merge_attention)(const float* partial, size_t v_width, float* sum);

  // out [v_width] = what the sum over all positions stands for, of which the
  // query saw one at least.
  void (*finish_attention)(const float* sum, size_t v_width, float* out);

  // Whether every x[i] is finite.
  bool (*all_finite)(const float* x, size_t n);
};

// The table of an ISA in SupportedIsas() (CHECKed). Lives forever.
const KernelTable& KernelsFor(Isa isa);

// What KernelsFor() has where IsAmd() is so, or not: the same results. For
// tests.
KernelTable MakeTable(Isa isa, bool is_amd);

}  // namespace thermocline::kernels

#endif  // THERMOCLINE_KERNELS_KERNELS_H_

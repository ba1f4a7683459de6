#include "training/gemm.h"

#include <algorithm>

#include "base/check.h"
#include "base/math.h"

namespace thermocline::training {
namespace {

// Pieces of a product: enough for the threads of a large machine, few enough
// that OpenBLAS packs the common operand seldom.
constexpr size_t kMaxPieces = 16;
constexpr size_t kMinPiece = 64;  // rows or columns

CBLAS_TRANSPOSE OrderOf(Op op) {
  return op == Op::kPlain ? CblasNoTrans : CblasTrans;
}

blasint Int(size_t n) { return static_cast<blasint>(n); }

// Row (or column) `begin` of op(matrix).
const float* At(const ConstMatrix& matrix, bool is_row, size_t begin) {
  const bool is_stored_row = is_row == (matrix.op == Op::kPlain);
  return matrix.data + begin * (is_stored_row ? matrix.stride : 1);
}

}  // namespace

Gemm::Gemm(os::ThreadPool* pool) : pool_(pool) {
  const auto blas = LoadBlas();
  TC_CHECK(blas.has_value());
  blas_ = *blas;
}

void Gemm::Multiply(const ConstMatrix& a, const ConstMatrix& b, size_t m,
                    size_t n, size_t k, float beta, float* out,
                    size_t out_stride) const {
  TC_CHECK(k > 0);
  const bool cut_rows = m > n;
  const size_t length = std::max(m, n);
  const size_t piece =
      RoundUp(std::max(CeilDiv(length, kMaxPieces), kMinPiece), kMinPiece);
  pool_->ParallelFor(length, piece, [&](size_t begin, size_t end, int) {
    const size_t size = end - begin;
    blas_->sgemm(CblasRowMajor, OrderOf(a.op), OrderOf(b.op),
                 Int(cut_rows ? size : m), Int(cut_rows ? n : size), Int(k),
                 1.0f, cut_rows ? At(a, true, begin) : a.data, Int(a.stride),
                 cut_rows ? b.data : At(b, false, begin), Int(b.stride), beta,
                 out + begin * (cut_rows ? out_stride : 1), Int(out_stride));
  });
}

}  // namespace thermocline::training

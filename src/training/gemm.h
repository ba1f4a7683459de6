// Products of float matrices over a thread pool.
#ifndef THERMOCLINE_TRAINING_GEMM_H_
#define THERMOCLINE_TRAINING_GEMM_H_

#include <cstddef>

#include "os/thread_pool.h"
#include "training/blas.h"

namespace thermocline::training {

enum class Op { kPlain, kTransposed };

// A row-major matrix; row r at data + r * stride.
struct ConstMatrix {
  const float* data;
  size_t stride;  // in floats
  Op op = Op::kPlain;
};

// OpenBLAS in one thread per piece, pieces fixed by the shape: the same bits
// for every number of threads, on one machine. (OpenBLAS has kernels per
// processor, which order sums differently.)
class Gemm {
 public:
  // The pool outlives this. Requires that LoadBlas succeeds. (CHECKed)
  explicit Gemm(os::ThreadPool* pool);

  os::ThreadPool& pool() const { return *pool_; }
  const Blas& blas() const { return *blas_; }

  // out [m, n] = beta * out + op(a) [m, k] op(b) [k, n]. out aliases nothing;
  // k > 0. Blocks until done; not inside a burst of the pool.
  void Multiply(const ConstMatrix& a, const ConstMatrix& b, size_t m, size_t n,
                size_t k, float beta, float* out, size_t out_stride) const;

 private:
  os::ThreadPool* pool_;
  const Blas* blas_;
};

}  // namespace thermocline::training

#endif  // THERMOCLINE_TRAINING_GEMM_H_

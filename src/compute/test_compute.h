// A thread pool, a kernel table and memory, for tests of what computes.
#ifndef THERMOCLINE_COMPUTE_TEST_COMPUTE_H_
#define THERMOCLINE_COMPUTE_TEST_COMPUTE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/random.h"
#include "compute/carver.h"
#include "compute/matmul.h"
#include "compute/product_scratch.h"
#include "kernels/kernels.h"
#include "os/memory.h"
#include "os/thread_pool.h"
#include "tensor/codec.h"
#include "tensor/tensor_view.h"

namespace thermocline::compute::testing {

struct TestShape {
  size_t num_rows = 1;
  size_t width = 1;  // of inputs
  int num_threads = 1;
  kernels::Isa isa = kernels::Isa::kScalar;
};

// With room for two matrices of inputs and their products.
class TestCompute {
 public:
  explicit TestCompute(const TestShape& shape)
      : pool_(os::ThreadPool::Create(
                  {.num_threads = shape.num_threads, .pin = false})
                  .value()),
        buffer_(os::AlignedBuffer::Allocate(NumBytes(shape)).value()) {
    Carver carver(buffer_.data());
    Carve(shape, carver);
    compute_ = {.pool = pool_.get(),
                .kernels = &kernels::KernelsFor(shape.isa),
                .scratch = scratch_};
  }

  const Compute& compute() const { return compute_; }
  const Rows& x() const { return x_; }
  const Rows& out() const { return out_; }  // as wide as x

 private:
  void Carve(const TestShape& shape, Carver& carver) {
    x_ = carver.TakeRows(shape.num_rows, shape.width);
    out_ = carver.TakeRows(shape.num_rows, shape.width);
    scratch_ = CarveProducts({.num_rows = shape.num_rows,
                              .widest = shape.width,
                              .num_threads = shape.num_threads,
                              .isa = shape.isa},
                             carver);
  }
  uint64_t NumBytes(const TestShape& shape) {
    Carver carver(nullptr);
    Carve(shape, carver);
    return carver.used();
  }

  std::unique_ptr<os::ThreadPool> pool_;
  os::AlignedBuffer buffer_;
  Rows x_, out_;
  ProductScratch scratch_;
  Compute compute_;
};

// A matrix [num_rows, n] of any type that owns its bytes.
class OwnedTensor {
 public:
  OwnedTensor(DType dtype, std::span<const float> values, uint64_t n)
      : bytes_(BytesOf(dtype, values.size())) {
    QuantizeRow(dtype, values, bytes_.data());
    view_ = {dtype, {{n, values.size() / n, 1, 1}, 2}, bytes_.data()};
  }
  OwnedTensor(const OwnedTensor&) = delete;
  OwnedTensor& operator=(const OwnedTensor&) = delete;
  const TensorView& view() const { return view_; }

 private:
  std::vector<std::byte> bytes_;
  TensorView view_;
};

// Between -amplitude and amplitude.
inline std::vector<float> RandomFloats(size_t count, uint64_t seed,
                                       float amplitude = 1.0f) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = random.Uniform(-amplitude, amplitude);
  return values;
}

// Which ISAs a test of whole steps or models runs: all that this machine has.
// In a sanitizer's build, twenty times slower, the best alone: there the
// kernels of the others have their own tests.
inline std::vector<kernels::Isa> IsasOfModels() {
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  return {kernels::BestIsa()};
#else
  return kernels::SupportedIsas();
#endif
}

}  // namespace thermocline::compute::testing

#endif  // THERMOCLINE_COMPUTE_TEST_COMPUTE_H_

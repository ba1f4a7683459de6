#include "probe/product.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/math.h"
#include "base/random.h"
#include "kernels/activation_row.h"
#include "os/memory.h"
#include "tensor/codec.h"

namespace thermocline::probe {
namespace {

// Fits the second-level cache of every CPU in use, beside inputs and outputs.
constexpr size_t kWeightBytes = 256 << 10;
constexpr size_t kRowsMin = 16;        // kernels take several rows at once
constexpr size_t kBatchRowsMax = 128;  // outputs take room too
// Odd, so that rows side by side differ whatever a kernel takes at once.
constexpr size_t kDistinctRows = 7;

constexpr int kSamples = 7;
constexpr int kSlowSamples = 3;  // where those took kPatienceSeconds
constexpr double kSampleSeconds = 4e-3;
constexpr double kPatienceSeconds = 0.1;

// Inputs may be rounded to 8 bits, which leaves an error of 0.4 % of their root
// mean square in each; they are random, so a product is as far off relative to
// |w| |x| / sqrt(n). Ten times that; a block that is left out is twice as much.
constexpr double kTolerance = 0.04;

double ThreadSeconds() {
  std::timespec now = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) +
         static_cast<double>(now.tv_nsec) * 1e-9;
}

std::vector<float> RandomFloats(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = random.Uniform(-1.0f, 1.0f);
  return values;
}

// One product: what a kernel gets, and what it should give.
class Case {
 public:
  static Result<Case> Create(const kernels::KernelTable& table, DType dtype,
                             size_t num_tokens) {
    Case made;
    made.dtype_ = dtype;
    made.batch_ = num_tokens > 1 ? table.batch_of(dtype) : nullptr;
    made.multiply_ = made.batch_ != nullptr ? made.batch_->multiply(dtype)
                                            : table.matmul(dtype);
    if (made.multiply_ == nullptr) {
      return Fail(ErrorCode::kUnsupported, "no kernel multiplies {} with {}",
                  NameOf(table.isa), NameOf(dtype));
    }
    made.args_.n = num_tokens == 1 ? 4096 : 2048;
    made.args_.num_tokens = num_tokens;
    TC_RETURN_IF_ERROR(made.MakeWeights());
    TC_RETURN_IF_ERROR(made.MakeInputs(table));
    made.out_.resize(made.args_.num_rows * num_tokens);
    made.args_.out = made.out_.data();
    made.args_.out_stride = made.args_.num_rows;
    return made;
  }

  bool is_batch() const { return batch_ != nullptr; }
  double num_bytes() const {
    return static_cast<double>(args_.num_rows * args_.row_bytes);
  }
  double num_macs() const {
    return static_cast<double>(args_.num_rows * args_.n * args_.num_tokens);
  }

  void Multiply() const { multiply_(args_); }

  // Whether what Multiply left is right, at the first, a middle and the last
  // token.
  bool Verify() const {
    return IsRight(0) && IsRight(args_.num_tokens / 2) &&
           IsRight(args_.num_tokens - 1);
  }

 private:
  Status MakeWeights() {
    args_.row_bytes = BytesOf(dtype_, args_.n);
    args_.num_rows = std::max(
        kWeightBytes / args_.row_bytes / kRowsMin * kRowsMin, kRowsMin);
    if (args_.num_tokens > 1) {
      args_.num_rows = std::min(args_.num_rows, kBatchRowsMax);
    }
    TC_ASSIGN_OR_RETURN(weights_, os::AlignedBuffer::Allocate(args_.num_rows *
                                                              args_.row_bytes));
    args_.weights = weights_.data();
    const std::vector<float> values =
        RandomFloats(kDistinctRows * args_.n, /*seed=*/1);
    for (size_t r = 0; r < args_.num_rows; ++r) {
      std::byte* row = weights_.data() + r * args_.row_bytes;
      if (r < kDistinctRows) {
        QuantizeRow(dtype_, std::span(values).subspan(r * args_.n, args_.n),
                    row);
      } else {
        std::memcpy(row, row - kDistinctRows * args_.row_bytes,
                    args_.row_bytes);
      }
    }
    return {};
  }

  // x_ as the kernel takes it.
  Status MakeInputs(const kernels::KernelTable& table) {
    const size_t n = args_.n;
    x_ = RandomFloats(args_.num_tokens * n, /*seed=*/2);
    const size_t group = batch_ != nullptr ? batch_->group_tokens : 1;
    args_.x_stride_bytes = batch_ != nullptr ? batch_->group_bytes(n)
                           : IsFloat(dtype_) ? n * sizeof(float)
                                             : kernels::ActivationRowBytes(n);
    TC_ASSIGN_OR_RETURN(
        inputs_, os::AlignedBuffer::Allocate(CeilDiv(args_.num_tokens, group) *
                                             args_.x_stride_bytes));
    args_.x = inputs_.data();
    for (size_t t = 0; t < args_.num_tokens; t += group) {
      const float* x = x_.data() + t * n;
      std::byte* out = inputs_.data() + t / group * args_.x_stride_bytes;
      if (batch_ != nullptr) {
        batch_->pack(x, n, std::min(group, args_.num_tokens - t), n, out);
      } else if (IsFloat(dtype_)) {
        std::memcpy(out, x, n * sizeof(float));
      } else {
        table.quantize_activations(x, n, out);
      }
    }
    if (batch_ == nullptr) return {};
    const size_t scratch_bytes = batch_->scratch_bytes(n);
    TC_ASSIGN_OR_RETURN(scratch_, os::AlignedBuffer::Allocate(
                                      std::max<size_t>(scratch_bytes, 64)));
    args_.scratch = scratch_.data();
    return {};
  }

  bool IsRight(size_t token_idx) const {
    const size_t n = args_.n;
    const float* x = x_.data() + token_idx * n;
    std::vector<float> row(n);
    for (size_t r = 0; r < args_.num_rows; ++r) {
      DequantizeRow(dtype_, args_.weights + r * args_.row_bytes, row);
      double dot = 0.0;
      double row_squares = 0.0;
      double x_squares = 0.0;
      for (size_t i = 0; i < n; ++i) {
        dot += static_cast<double>(row[i]) * x[i];
        row_squares += static_cast<double>(row[i]) * row[i];
        x_squares += static_cast<double>(x[i]) * x[i];
      }
      const double limit = kTolerance * std::sqrt(row_squares * x_squares /
                                                  static_cast<double>(n));
      const double off = out_[token_idx * args_.out_stride + r] - dot;
      if (!(std::fabs(off) <= limit)) return false;  // NaN neither
    }
    return true;
  }

  DType dtype_ = DType::kF32;
  const kernels::BatchMatMul* batch_ = nullptr;  // null: a plain product
  kernels::MatMulFn multiply_ = nullptr;
  kernels::MatMulArgs args_ = {};
  os::AlignedBuffer weights_, inputs_, scratch_;
  std::vector<float> x_;  // [T, n]
  std::vector<float> out_;
};

// Of one product, in the cache.
double MedianSeconds(const Case& product) {
  const double begin = ThreadSeconds();
  product.Multiply();
  const double once = std::max(ThreadSeconds() - begin, 1e-9);
  const int num_calls = std::max(static_cast<int>(kSampleSeconds / once), 1);
  std::vector<double> samples;
  double spent = 0.0;
  while (samples.size() < kSamples &&
         (spent < kPatienceSeconds || samples.size() < kSlowSamples)) {
    const double start = ThreadSeconds();
    for (int i = 0; i < num_calls; ++i) product.Multiply();
    const double seconds = std::max(ThreadSeconds() - start, 1e-9);
    spent += seconds;
    samples.push_back(seconds / num_calls);
  }
  std::ranges::sort(samples);
  return samples[samples.size() / 2];
}

}  // namespace

Result<ProductRate> MeasureProduct(const kernels::KernelTable& table,
                                   DType dtype, size_t num_tokens) {
  TC_CHECK(num_tokens >= 1);
  TC_ASSIGN_OR_RETURN(const Case product,
                      Case::Create(table, dtype, num_tokens));
  product.Multiply();
  if (!product.Verify()) {
    return Fail(ErrorCode::kCorrupt,
                "the {} kernel for {} gives wrong products of {} tokens; the "
                "speed of a wrong result means nothing",
                NameOf(table.isa), NameOf(dtype), num_tokens);
  }
  const double seconds = MedianSeconds(product);
  return ProductRate{.gb_per_s = product.num_bytes() / seconds / 1e9,
                     .gmac_per_s = product.num_macs() / seconds / 1e9,
                     .is_batch = product.is_batch()};
}

}  // namespace thermocline::probe

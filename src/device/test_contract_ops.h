// Operations of device_ops.h but for those on sets of neurons, against sums in
// double, for every device: see test_contract.h.
#ifndef THERMOCLINE_DEVICE_TEST_CONTRACT_OPS_H_
#define THERMOCLINE_DEVICE_TEST_CONTRACT_OPS_H_

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "device/test_contract.h"
#include "kernels/device_ops.h"
#include "kernels/testing.h"
#include "tensor/float16.h"

namespace thermocline::device {

class DeviceOpsContract : public DeviceContract {};

// Sums in floats of what the reference has in double.
inline constexpr double kFloatNmse = 1e-10;

// Of rows as wide as `weight`. bias may be null.
inline std::vector<double> NormsOf(NormKind kind, const std::vector<float>& x,
                                   const std::vector<float>& weight,
                                   const float* bias) {
  const size_t n = weight.size();
  std::vector<double> norms;
  for (size_t r = 0; r < x.size() / n; ++r) {
    double mean = 0.0, square = 0.0;
    for (size_t i = 0; i < n; ++i) mean += x[r * n + i];
    mean = kind == NormKind::kLayer ? mean / static_cast<double>(n) : 0.0;
    for (size_t i = 0; i < n; ++i) {
      square += (x[r * n + i] - mean) * (x[r * n + i] - mean);
    }
    const double scale =
        1.0 / std::sqrt(square / static_cast<double>(n) + 1e-5);
    for (size_t i = 0; i < n; ++i) {
      norms.push_back((x[r * n + i] - mean) * scale * weight[i] +
                      (bias != nullptr ? bias[i] : 0.0));
    }
  }
  return norms;
}

TEST_P(DeviceOpsContract, Norms) {
  for (const size_t n : {1, 7, 33, 256, 1029}) {
    for (const size_t num_rows : {1, 8, 33}) {
      for (const NormKind kind : {NormKind::kRms, NormKind::kLayer}) {
        const auto x = kernels::RandomFloats(num_rows * n, n + num_rows);
        const auto weight = kernels::RandomFloats(n, 2);
        const auto bias = kernels::RandomFloats(n, 3);
        const bool has_bias = n % 2 == 1;
        const auto want =
            NormsOf(kind, x, weight, has_bias ? bias.data() : nullptr);
        auto* device_x = on_.Put(x);
        // In its place, too.
        auto* out = num_rows == 8 ? device_x : on_.Room<float>(num_rows * n);
        on_.Run(kernels::NormArgs{.kind = kind,
                                  .epsilon = 1e-5f,
                                  .num_rows = static_cast<uint32_t>(num_rows),
                                  .n = static_cast<uint32_t>(n),
                                  .x = device_x,
                                  .weight = on_.Put(weight),
                                  .bias = has_bias ? on_.Put(bias) : nullptr,
                                  .out = out});
        // Of one element layer norm is about nothing but rounding.
        if (n == 1 && kind == NormKind::kLayer) continue;
        EXPECT_LT(Nmse(on_.Get(out, num_rows * n), want), kFloatNmse)
            << num_rows << " rows of " << n;
      }
    }
  }
}

class GemvCase {
 public:
  GemvCase(OnDevice& on, DType dtype, size_t num_rows, size_t n)
      : on_(on),
        dtype_(dtype),
        num_rows_(num_rows),
        n_(n),
        rows_(dtype, num_rows, n, 3, num_rows + n),
        bias_(kernels::RandomFloats(num_rows, 5)),
        before_(kernels::RandomFloats(kernels::kDeviceRows * num_rows, 6)),
        x_(kernels::RandomFloats(kernels::kDeviceRows * n, 7)),
        matrix_(on.PutMatrix(dtype, rows_, num_rows, n)),
        device_bias_(on.Put(bias_)) {}

  // Of num_tokens rows from first_token on.
  std::vector<float> Run(size_t first_token, size_t num_tokens, bool adds,
                         bool has_bias) {
    const auto at = [&](const std::vector<float>& rows, size_t width) {
      const auto* begin = rows.data() + first_token * width;
      return std::vector<float>(begin, begin + num_tokens * width);
    };
    float* out = on_.Put(at(before_, num_rows_));
    on_.Run(kernels::GemvArgs{
        .weights = matrix_,
        .bias = has_bias ? device_bias_ : nullptr,
        .num_tokens = static_cast<uint32_t>(num_tokens),
        .x = on_.Put(at(x_, n_)),
        .adds = adds,
        .out = out,
        .scratch =
            on_.Room<std::byte>(kernels::QuantizedRowsBytes(n_, num_tokens))});
    return on_.Get(out, num_tokens * num_rows_);
  }

  std::vector<double> Want(size_t num_tokens, bool adds, bool has_bias) const {
    const auto x = SeenBy(dtype_, x_, kernels::kDeviceRows, n_);
    std::vector<double> want(num_tokens * num_rows_);
    for (size_t r = 0; r < num_rows_; ++r) {
      const auto row = RowValues(dtype_, rows_.row(r), n_);
      for (size_t t = 0; t < num_tokens; ++t) {
        const size_t i = t * num_rows_ + r;
        want[i] = DotOf(row, x.data() + t * n_) + (has_bias ? bias_[r] : 0.0) +
                  (adds ? before_[i] : 0.0);
      }
    }
    return want;
  }

 private:
  OnDevice& on_;
  DType dtype_;
  size_t num_rows_, n_;
  kernels::WeightRows rows_;
  std::vector<float> bias_, before_, x_;
  kernels::DeviceMatrix matrix_;
  float* device_bias_;
};

TEST_P(DeviceOpsContract, ProductsOfEveryType) {
  for (const DType dtype : TypesOf(device_)) {
    for (const size_t about : {1, 65, 500}) {
      for (const size_t num_rows : {1, 5, 67}) {
        GemvCase gemv(on_, dtype, num_rows, WidthOf(dtype, about));
        for (size_t num_tokens = 1; num_tokens <= 8;
             num_tokens += token_step_) {
          const bool adds = num_tokens % 2 == 0;
          const bool has_bias = num_tokens % 3 != 0;
          const auto got = gemv.Run(0, num_tokens, adds, has_bias);
          EXPECT_LT(Nmse(got, gemv.Want(num_tokens, adds, has_bias)),
                    kFloatNmse)
              << NameOf(dtype) << " " << num_rows << " rows of "
              << WidthOf(dtype, about) << " T " << num_tokens;
        }
      }
    }
  }
}

// The same bits beside other rows as alone, and again.
TEST_P(DeviceOpsContract, ARowOfAProductDoesNotDependOnOthers) {
  for (const DType dtype : TypesOf(device_)) {
    GemvCase gemv(on_, dtype, 19, WidthOf(dtype, 300));
    const auto together = gemv.Run(0, 8, false, true);
    EXPECT_TRUE(kernels::SameBits(together, gemv.Run(0, 8, false, true)));
    for (size_t t = 0; t < 8; ++t) {
      const std::vector<float> row(together.begin() + t * 19,
                                   together.begin() + (t + 1) * 19);
      EXPECT_TRUE(kernels::SameBits(row, gemv.Run(t, 1, false, true)))
          << NameOf(dtype) << " row " << t;
    }
  }
}

TEST_P(DeviceOpsContract, NaNShowsInAProduct) {
  for (const DType dtype : TypesOf(device_)) {
    const size_t n = WidthOf(dtype, 65);
    const kernels::WeightRows rows(dtype, 3, n, 0, 1);
    std::vector<float> x(2 * n, 1.0f);
    x[n + 1] = std::numeric_limits<float>::quiet_NaN();
    float* out = on_.Room<float>(6);
    on_.Run(kernels::GemvArgs{
        .weights = on_.PutMatrix(dtype, rows, 3, n),
        .num_tokens = 2,
        .x = on_.Put(x),
        .out = out,
        .scratch = on_.Room<std::byte>(kernels::QuantizedRowsBytes(n, 2))});
    const auto got = on_.Get(out, 6);
    for (int i = 0; i < 6; ++i) {
      EXPECT_EQ(std::isfinite(got[i]), i < 3) << NameOf(dtype) << " " << i;
    }
  }
}

TEST_P(DeviceOpsContract, RotatesHeads) {
  constexpr size_t kHeads = 3, kWidth = 22;
  for (const RopeKind kind : {RopeKind::kNorm, RopeKind::kNeox}) {
    for (const size_t num_pairs : {size_t{11}, size_t{7}}) {
      for (size_t num_tokens = 1; num_tokens <= 8; num_tokens += token_step_) {
        const auto angles = kernels::RandomFloats(num_tokens * num_pairs, 1, 3);
        std::vector<float> cos, sin;
        for (const float angle : angles) {
          cos.push_back(std::cos(angle));
          sin.push_back(std::sin(angle));
        }
        const auto x = kernels::RandomFloats(num_tokens * kHeads * kWidth, 2);
        std::vector<double> want(x.begin(), x.end());
        for (size_t h = 0; h < num_tokens * kHeads; ++h) {
          for (size_t i = 0; i < num_pairs; ++i) {
            const bool is_neox = kind == RopeKind::kNeox;
            const size_t a = h * kWidth + (is_neox ? i : 2 * i);
            const size_t b = a + (is_neox ? num_pairs : 1);
            const size_t angle = h / kHeads * num_pairs + i;
            want[a] = double{x[a]} * cos[angle] - double{x[b]} * sin[angle];
            want[b] = double{x[a]} * sin[angle] + double{x[b]} * cos[angle];
          }
        }
        float* heads = on_.Put(x);
        on_.Run(
            kernels::RopeArgs{.kind = kind,
                              .num_tokens = static_cast<uint32_t>(num_tokens),
                              .num_heads = kHeads,
                              .head_width = kWidth,
                              .num_pairs = static_cast<uint32_t>(num_pairs),
                              .cos = on_.Put(cos),
                              .sin = on_.Put(sin),
                              .heads = heads});
        EXPECT_LT(Nmse(on_.Get(heads, x.size()), want), kFloatNmse);
      }
    }
  }
}

TEST_P(DeviceOpsContract, Activates) {
  for (const ActivationInfo& info : Activations()) {
    for (const bool gated : {true, false}) {
      if (info.needs_gate && !gated) continue;
      for (const size_t count : {1, 31, 1027}) {
        const auto gate = kernels::RandomFloats(count, 1, 4);
        const auto up = kernels::RandomFloats(count, 2, 4);
        std::vector<double> want;
        for (size_t i = 0; i < count; ++i) {
          want.push_back(gated ? GatedOf(info.activation, 0.5, gate[i], up[i])
                               : ActivationOf(info.activation, 0.5, up[i]));
        }
        float* device_up = on_.Put(up);
        float* out = count == 31 ? device_up : on_.Room<float>(count);
        on_.Run(kernels::ActivateArgs{.activation = info.activation,
                                      .threshold = 0.5f,
                                      .count = static_cast<uint32_t>(count),
                                      .gate = gated ? on_.Put(gate) : nullptr,
                                      .up = device_up,
                                      .out = out});
        EXPECT_LT(Nmse(on_.Get(out, count), want), kFloatNmse)
            << info.name << " " << count;
      }
    }
  }
}

TEST_P(DeviceOpsContract, AddsScaledRows) {
  for (size_t num_tokens = 1; num_tokens <= 8; num_tokens += token_step_) {
    for (const size_t n : {1, 67, 512}) {
      const auto x = kernels::RandomFloats(num_tokens * n, 1);
      const auto before = kernels::RandomFloats(num_tokens * n, 2);
      const auto factors = kernels::RandomFloats(num_tokens, 3);
      const bool has_factors = n != 67;
      std::vector<double> want;
      for (size_t i = 0; i < num_tokens * n; ++i) {
        want.push_back(before[i] +
                       double{x[i]} * (has_factors ? factors[i / n] : 1.0f));
      }
      float* out = on_.Put(before);
      on_.Run(kernels::AddRowsScaledArgs{
          .num_tokens = static_cast<uint32_t>(num_tokens),
          .n = static_cast<uint32_t>(n),
          .x = on_.Put(x),
          .factors = has_factors ? on_.Put(factors) : nullptr,
          .out = out});
      EXPECT_LT(Nmse(on_.Get(out, num_tokens * n), want), kFloatNmse);
    }
  }
}

TEST_P(DeviceOpsContract, FindsTheFirstOfTheLargest) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const size_t n : {1, 5, 32, 1000, 32003}) {
    std::vector<float> x = kernels::RandomFloats(8 * n, n);
    const auto at = [&](size_t t, size_t i) -> float& {
      return x[t * n + i % n];
    };
    at(1, 3) = at(1, n - 1) = 2.0f;  // the first of equals
    at(2, n / 2) = at(2, n - 1) = nan;
    for (size_t i = 0; i < n; ++i) at(3, i) = -infinity;
    at(4, n - 1) = infinity;
    for (size_t i = 0; i < n; ++i) at(5, i) = -1.0f - static_cast<float>(i);
    at(6, 2) = -nan;
    at(6, 4) = infinity;
    std::vector<uint32_t> want;
    for (size_t t = 0; t < 8; ++t) {
      size_t best = 0;
      for (size_t i = 1; i < n && !std::isnan(at(t, best)); ++i) {
        if (std::isnan(at(t, i)) || at(t, i) > at(t, best)) best = i;
      }
      want.push_back(static_cast<uint32_t>(best));
    }
    for (const uint32_t num_tokens : {1u, 8u}) {
      auto* out = on_.Room<uint32_t>(num_tokens);
      on_.Run(kernels::ArgMaxArgs{.num_tokens = num_tokens,
                                  .n = static_cast<uint32_t>(n),
                                  .x = on_.Put(x),
                                  .out = out});
      EXPECT_EQ(on_.Get(out, num_tokens),
                std::vector<uint32_t>(want.begin(), want.begin() + num_tokens))
          << n;
    }
  }
}

}  // namespace thermocline::device

#endif  // THERMOCLINE_DEVICE_TEST_CONTRACT_OPS_H_

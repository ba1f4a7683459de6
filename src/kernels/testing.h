// What the tests of the kernels share: seeded inputs with guarded, unaligned
// memory, and tests that run once per ISA of this machine.
#ifndef THERMOCLINE_KERNELS_TESTING_H_
#define THERMOCLINE_KERNELS_TESTING_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <tuple>
#include <vector>

#include "base/random.h"
#include "kernels/activation_row.h"
#include "kernels/kernels.h"
#include "tensor/codec.h"
#include "tensor/float16.h"

namespace thermocline::kernels {

inline constexpr size_t kOddSizes[] = {
    1,  2,  3,  5,  7,   8,   15,  16,  17,  31,  32,   33,
    63, 64, 65, 96, 127, 128, 160, 172, 255, 257, 2047, 2049};

inline constexpr DType kFloatTypes[] = {DType::kF32, DType::kF16, DType::kBF16};
inline constexpr DType kQuantTypes[] = {
    DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kQ5_0,
    DType::kQ5_1, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K};

inline std::vector<DType> AllTypes() {
  std::vector<DType> types(std::begin(kFloatTypes), std::end(kFloatTypes));
  types.insert(types.end(), std::begin(kQuantTypes), std::end(kQuantTypes));
  return types;
}

// Half a unit in the last place of 1.0f: the relative error of one rounding.
inline constexpr double kRounding = 0x1.0p-24;

inline std::vector<float> RandomFloats(size_t n, uint64_t seed,
                                       float amplitude = 1) {
  Random random(seed);
  std::vector<float> values(n);
  for (float& value : values) value = random.Uniform(-amplitude, amplitude);
  return values;
}

// The bytes of two arrays of floats are equal (NaN equals the same NaN).
inline bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

inline const std::byte* AsBytes(const float* p) {
  return reinterpret_cast<const std::byte*>(p);
}

// What outputs hold before a call; nothing computes it.
inline constexpr float kSentinel = -123456.75f;

struct FreeAligned {
  void operator()(std::byte* p) const {
    ::operator delete(p, std::align_val_t(64));
  }
};
using AlignedBytes = std::unique_ptr<std::byte[], FreeAligned>;

// Memory that starts at a multiple of 64 bytes, and ends with its last byte for
// a sanitizer. Not initialised.
inline AlignedBytes MakeAligned(size_t num_bytes) {
  return AlignedBytes(
      static_cast<std::byte*>(::operator new(num_bytes, std::align_val_t(64))));
}

// Whether add_rows rounds what quants are multiplied with (kernels.h).
inline bool RoundsCoefs(Isa isa, DType dtype) {
  const bool has_kernel = isa == Isa::kAvx2 || isa == Isa::kAvxVnni ||
                          isa == Isa::kAvx512Vnni || isa == Isa::kAmx;
  return has_kernel && (dtype == DType::kQ4_0 || dtype == DType::kQ4_K);
}

// What one more in each nibble of a row of Q4_0 or Q4_K is worth.
inline std::vector<float> NibbleScales(DType dtype, const std::byte* row,
                                       size_t n) {
  const DTypeInfo& info = InfoOf(dtype);
  std::vector<std::byte> bytes(row, row + BytesOf(dtype, n));
  const size_t quants_bytes = info.block_elems / 2;
  std::vector<float> values[2];
  for (int nibble : {0, 1}) {
    for (size_t end = info.block_bytes; end <= bytes.size();
         end += info.block_bytes) {
      std::memset(bytes.data() + end - quants_bytes, 0x11 * nibble,
                  quants_bytes);
    }
    values[nibble].resize(n);
    DequantizeRow(dtype, bytes.data(), values[nibble]);
  }
  for (size_t i = 0; i < n; ++i) values[1][i] -= values[0][i];
  return values[1];
}

// Rows of random values of one type, `pad` bytes apart, one byte off any
// alignment. The memory ends with the last row, so that a sanitizer sees reads
// beyond it.
class WeightRows {
 public:
  WeightRows(DType dtype, size_t num_rows, size_t n, size_t pad, uint64_t seed)
      : row_bytes_(BytesOf(dtype, n) + pad),
        bytes_(1 + (num_rows - 1) * row_bytes_ + BytesOf(dtype, n)) {
    Random random(seed);
    for (std::byte& b : bytes_) b = static_cast<std::byte>(random.Next());
    for (size_t r = 0; r < num_rows; ++r) {
      Fill(dtype, n, row(r), random);
    }
  }

  const std::byte* data() const { return bytes_.data() + 1; }
  const std::byte* row(size_t r) const { return data() + r * row_bytes_; }
  std::byte* row(size_t r) { return bytes_.data() + 1 + r * row_bytes_; }
  size_t row_bytes() const { return row_bytes_; }

 private:
  // Quantised blocks keep their random quants and packed scales, so that every
  // bit pattern occurs, and get random F16 scales of a sane size.
  static void Fill(DType dtype, size_t n, std::byte* row, Random& random) {
    const auto store = [&](size_t offset, auto value) {
      std::memcpy(row + offset, &value, sizeof(value));
    };
    const auto value = [&] { return random.Uniform(-1.0f, 1.0f); };
    if (dtype == DType::kF32) {
      for (size_t i = 0; i < n; ++i) store(4 * i, value());
    } else if (dtype == DType::kF16) {
      for (size_t i = 0; i < n; ++i) store(2 * i, F32ToF16(value()));
    } else if (dtype == DType::kBF16) {
      for (size_t i = 0; i < n; ++i) store(2 * i, F32ToBF16(value()));
    } else {
      const DTypeInfo& info = InfoOf(dtype);
      const bool has_min = dtype == DType::kQ4_1 || dtype == DType::kQ5_1 ||
                           dtype == DType::kQ4_K || dtype == DType::kQ5_K;
      const size_t d_offset = dtype == DType::kQ6_K ? 208 : 0;
      for (size_t b = 0; b < n / info.block_elems; ++b) {
        store(b * info.block_bytes + d_offset, F32ToF16(value() / 16));
        if (has_min) store(b * info.block_bytes + 2, F32ToF16(value() / 16));
      }
    }
  }

  size_t row_bytes_;
  std::vector<std::byte> bytes_;
};

// T activation rows as the scalar kernels round x [T, n].
class ActivationRows {
 public:
  ActivationRows(const std::vector<float>& x, size_t num_tokens, size_t n)
      : stride_bytes_(ActivationRowBytes(n)),
        bytes_(MakeAligned(num_tokens * stride_bytes_)) {
    for (size_t t = 0; t < num_tokens; ++t) {
      KernelsFor(Isa::kScalar)
          .quantize_activations(x.data() + t * n, n,
                                bytes_.get() + t * stride_bytes_);
    }
  }

  const std::byte* data() const { return bytes_.get(); }
  size_t stride_bytes() const { return stride_bytes_; }
  ActivationRow row(size_t t, size_t n) const {
    return ActivationRowAt(bytes_.get() + t * stride_bytes_, n);
  }

 private:
  size_t stride_bytes_;
  AlignedBytes bytes_;
};

// A suite whose tests run once per ISA that this machine can run.
class IsaTest : public ::testing::TestWithParam<Isa> {
 protected:
  const KernelTable& kernels() const { return KernelsFor(GetParam()); }
  const KernelTable& scalar() const { return KernelsFor(Isa::kScalar); }
};

#define TC_FOR_EACH_ISA(Suite)                                                 \
  INSTANTIATE_TEST_SUITE_P(Isas, Suite, ::testing::ValuesIn(SupportedIsas()),  \
                           [](const ::testing::TestParamInfo<Isa>& test) {     \
                             std::string name(NameOf(test.param));             \
                             std::replace(name.begin(), name.end(), '-', '_'); \
                             return name;                                      \
                           })

inline std::string IsaAndTypeName(
    const ::testing::TestParamInfo<std::tuple<Isa, DType>>& info) {
  std::string name(NameOf(std::get<0>(info.param)));
  name += "_";
  name += NameOf(std::get<1>(info.param));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace thermocline::kernels

#endif  // THERMOCLINE_KERNELS_TESTING_H_

#include <limits>

#include "kernels/testing.h"
#include "tensor/codec.h"

namespace thermocline::kernels {
namespace {

class FloatQuantizeTest : public IsaTest {};
TC_FOR_EACH_ISA(FloatQuantizeTest);

// Quantised rows of two tables are the same bytes, apart from the gap before q.
void ExpectSameRow(const std::byte* a, const std::byte* b, size_t n) {
  const size_t used = n / 32 * sizeof(float) + n / 16 * sizeof(int16_t);
  EXPECT_EQ(std::memcmp(a, b, used), 0) << "scales or sums, n " << n;
  EXPECT_EQ(std::memcmp(a + ActivationQuantOffset(n),
                        b + ActivationQuantOffset(n), n),
            0)
      << "quants, n " << n;
}

void ExpectSameQuantisation(const KernelTable& kernels,
                            const std::vector<float>& x) {
  const size_t n = x.size();
  const size_t bytes = ActivationRowBytes(n);
  std::vector<float> out(bytes / sizeof(float) + 1, 77);
  std::vector<float> truth = out;
  auto* out_bytes = reinterpret_cast<std::byte*>(out.data());
  auto* truth_bytes = reinterpret_cast<std::byte*>(truth.data());
  kernels.quantize_activations(x.data(), n, out_bytes);
  KernelsFor(Isa::kScalar).quantize_activations(x.data(), n, truth_bytes);
  ExpectSameRow(out_bytes, truth_bytes, n);
  EXPECT_EQ(out.back(), 77) << "written beyond the row";
}

TEST_P(FloatQuantizeTest, EqualsScalarBitForBit) {
  for (size_t n = 32; n <= 512; n += 32) {
    for (float amplitude : {1e-44f, 1e-39f, 1e-5f, 1.0f, 1e30f}) {
      ExpectSameQuantisation(kernels(), RandomFloats(n, n, amplitude));
    }
  }
}

// Exact halves: every tie must go to the even side.
TEST_P(FloatQuantizeTest, TiesEqualScalar) {
  std::vector<float> x(512);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(static_cast<int>(i) - 256) / 2;
  }
  for (size_t i = 0; i < x.size(); i += 32) x[i] = 127;
  ExpectSameQuantisation(kernels(), x);
}

TEST_P(FloatQuantizeTest, NonFiniteEqualsScalar) {
  for (float bad : {std::numeric_limits<float>::quiet_NaN(),
                    std::numeric_limits<float>::infinity(),
                    -std::numeric_limits<float>::infinity()}) {
    for (size_t place = 0; place < 64; place += 7) {
      std::vector<float> x = RandomFloats(96, place);
      x[place] = bad;
      ExpectSameQuantisation(kernels(), x);
    }
  }
}

TEST_P(FloatQuantizeTest, StoredRowsEqualScalars) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kQ8_0}) {
    for (size_t n : kOddSizes) {
      if (dtype == DType::kQ8_0 && n % 32 != 0) continue;
      for (float amplitude : {1e-7f, 1.0f, 1e5f}) {
        const std::vector<float> x = RandomFloats(n, n, amplitude);
        std::vector<std::byte> out(BytesOf(dtype, n) + 1, std::byte{77});
        std::vector<std::byte> truth = out;
        kernels().store_row(dtype, x.data(), n, out.data());
        KernelsFor(Isa::kScalar).store_row(dtype, x.data(), n, truth.data());
        EXPECT_EQ(out, truth) << NameOf(dtype) << " n " << n;
      }
    }
  }
}

// Exact halves go away from zero; and what has no scale, or none that fits.
TEST_P(FloatQuantizeTest, StoredBlocksEqualScalarsBitForBit) {
  std::vector<float> x(512);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(static_cast<int>(i) - 256) / 2;
  }
  for (size_t i = 0; i < x.size(); i += 32) x[i] = i % 64 == 0 ? 127 : -127;
  const auto expect_same = [&] {
    std::vector<std::byte> out(BytesOf(DType::kQ8_0, x.size()));
    std::vector<std::byte> truth = out;
    kernels().store_row(DType::kQ8_0, x.data(), x.size(), out.data());
    KernelsFor(Isa::kScalar)
        .store_row(DType::kQ8_0, x.data(), x.size(), truth.data());
    EXPECT_EQ(out, truth);
  };
  expect_same();
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                          -std::numeric_limits<float>::infinity(),
                          127.0f * 65504.0f, 8.4e6f, 3e38f}) {
    for (size_t place = 0; place < 96; place += 13) {
      x = RandomFloats(96, place);
      x[place] = bad;
      expect_same();
    }
  }
  for (const float amplitude : {0.0f, 1e-44f, 1e-38f, 1e-30f, 1e-28f}) {
    x = RandomFloats(96, 3, amplitude);
    expect_same();
  }
}

TEST_P(FloatQuantizeTest, StoredRowsNeedNoAlignment) {
  const std::vector<float> x = RandomFloats(33, 1);
  std::vector<std::byte> out(67), truth(66);
  kernels().store_row(DType::kF16, x.data(), 33, out.data() + 1);
  QuantizeRow(DType::kF16, x, truth.data());
  EXPECT_TRUE(std::equal(truth.begin(), truth.end(), out.begin() + 1));
}

}  // namespace
}  // namespace thermocline::kernels

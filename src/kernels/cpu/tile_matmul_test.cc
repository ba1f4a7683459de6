#include "kernels/cpu/tile_matmul.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "base/random.h"
#include "kernels/activation_row.h"
#include "kernels/kernels.h"
#include "kernels/testing.h"
#include "tensor/blocks.h"
#include "tensor/codec.h"
#include "tensor/dtype.h"

namespace thermocline::kernels {
namespace {

// Rows x [T, n], some with blocks of zeros, and what they are once rounded.
class Tokens {
 public:
  Tokens(std::vector<float> x, size_t num_tokens, size_t n)
      : x_(std::move(x)), n_(n), rounded_(num_tokens * n) {
    const ActivationRows rows(x_, num_tokens, n);
    for (size_t t = 0; t < num_tokens; ++t) {
      const ActivationRow row = rows.row(t, n);
      for (size_t i = 0; i < n; ++i) {
        rounded_[t * n + i] =
            static_cast<double>(row.d[i / 32]) * static_cast<double>(row.q[i]);
      }
    }
  }

  // Tokens [first, first + count), packed one group after the other in memory
  // that ends with the last.
  AlignedBytes Pack(const BatchMatMul& batch, size_t first,
                    size_t count) const {
    const size_t group_bytes = batch.group_bytes(n_);
    const size_t num_groups =
        (count + batch.group_tokens - 1) / batch.group_tokens;
    AlignedBytes packed = MakeAligned(num_groups * group_bytes);
    for (size_t g = 0; g < num_groups; ++g) {
      const size_t token = g * batch.group_tokens;
      batch.pack(x_.data() + (first + token) * n_, n_,
                 std::min(batch.group_tokens, count - token), n_,
                 packed.get() + g * group_bytes);
    }
    return packed;
  }

  const double* rounded(size_t t) const { return rounded_.data() + t * n_; }

 private:
  std::vector<float> x_;
  size_t n_;
  std::vector<double> rounded_;
};

std::vector<float> RandomTokens(size_t num_tokens, size_t n, uint64_t seed) {
  std::vector<float> x = RandomFloats(num_tokens * n, seed);
  Random random(seed);
  for (size_t i = 0; i < x.size(); i += 32) {
    if (random.Below(16) == 0) std::fill_n(x.begin() + i, 32, 0.0f);
  }
  return x;
}

// Rows in memory that ends with the last of them.
struct Weights {
  const std::byte* data;
  size_t row_bytes;
  size_t num_rows;
  size_t n;
  double min_bound;  // of |minimum| of a block
};

class TileMatMulTest : public testing::TestWithParam<std::tuple<Isa, DType>> {
 protected:
  void SetUp() override { FillTileMatMuls(std::get<0>(GetParam()), table_); }

  const BatchMatMul& batch() const { return table_.batch; }
  DType dtype() const { return std::get<1>(GetParam()); }

  // The largest minimum in units of the second half-precision number.
  double MinUnits() const {
    if (dtype() == DType::kQ4_1 || dtype() == DType::kQ5_1) return 1;
    return dtype() == DType::kQ4_K || dtype() == DType::kQ5_K ? 63 : 0;
  }

  Weights Of(const WeightRows& rows, size_t num_rows, size_t n) const {
    return {rows.data(), rows.row_bytes(), num_rows, n, MinUnits() / 16};
  }

  // Lengths that the type allows, on both sides of whole panels.
  std::vector<size_t> Lengths() const {
    std::vector<size_t> lengths = {32,  64,  96,   160,  256,  480, 512,
                                   544, 768, 1024, 1056, 1280, 2048};
    const size_t block = InfoOf(dtype()).block_elems;
    std::erase_if(lengths, [block](size_t n) { return n % block != 0; });
    return lengths;
  }

  // Products of all rows with tokens [first, first + count); out rows of
  // num_rows + 2 floats, the last two of which must stay as they were.
  std::vector<float> Multiply(const Weights& weights, const Tokens& tokens,
                              size_t first, size_t count) const {
    const size_t stride = weights.num_rows + 2;
    std::vector<float> out(count * stride, kSentinel);
    const AlignedBytes packed = tokens.Pack(batch(), first, count);
    const AlignedBytes scratch =
        MakeAligned(batch().scratch_bytes(weights.n) + 1);
    batch().multiply(dtype())({.weights = weights.data,
                               .row_bytes = weights.row_bytes,
                               .num_rows = weights.num_rows,
                               .n = weights.n,
                               .x = packed.get(),
                               .x_stride_bytes = batch().group_bytes(weights.n),
                               .num_tokens = count,
                               .out = out.data(),
                               .out_stride = stride,
                               .scratch = scratch.get()});
    for (size_t t = 0; t < count; ++t) {
      EXPECT_EQ(out[t * stride + stride - 2], kSentinel);
      EXPECT_EQ(out[t * stride + stride - 1], kSentinel);
    }
    return out;
  }

  // Each product is within rounding of the sum in double precision: half an
  // ulp for each operation on the way of a term, which are a few of its own
  // and one addition per half of a block.
  void ExpectNearReference(const Weights& weights, const Tokens& tokens,
                           size_t count) const {
    const std::vector<float> out = Multiply(weights, tokens, 0, count);
    const double relative =
        kRounding * (8 + static_cast<double>(weights.n) / 16);
    std::vector<float> row(weights.n);
    for (size_t r = 0; r < weights.num_rows; ++r) {
      DequantizeRow(dtype(), weights.data + r * weights.row_bytes, row);
      for (size_t t = 0; t < count; ++t) {
        double sum = 0;
        double magnitude = 0;
        for (size_t i = 0; i < weights.n; ++i) {
          const double x = tokens.rounded(t)[i];
          sum += row[i] * x;
          magnitude +=
              (std::abs(static_cast<double>(row[i])) + 2 * weights.min_bound) *
              std::abs(x);
        }
        ASSERT_NEAR(out[t * (weights.num_rows + 2) + r], sum,
                    relative * magnitude)
            << "row " << r << " of " << weights.num_rows << ", token " << t
            << " of " << count << ", n " << weights.n;
      }
    }
  }

  void ExpectRandomNearReference(size_t n, size_t num_rows, size_t count) {
    const uint64_t seed = n * 100 + num_rows * 10 + count;
    const WeightRows rows(dtype(), num_rows, n, count % 4, seed);
    const Tokens tokens(RandomTokens(count, n, seed), count, n);
    ExpectNearReference(Of(rows, num_rows, n), tokens, count);
  }

 private:
  KernelTable table_ = {};
};

TEST_P(TileMatMulTest, AgreesWithReferenceInEveryLength) {
  for (size_t n : Lengths()) {
    ExpectRandomNearReference(n, 5, 17);
    ExpectRandomNearReference(n, 33, 6);
  }
}

TEST_P(TileMatMulTest, AgreesWithReferenceForAllRowAndTokenCounts) {
  for (size_t num_rows = 1; num_rows <= 70; ++num_rows) {
    ExpectRandomNearReference(256, num_rows, 1 + num_rows % 9);
  }
  for (size_t count = 1; count <= 70; ++count) {
    ExpectRandomNearReference(256, 3, count);
  }
}

TEST_P(TileMatMulTest, AgreesWithReferenceForManyTokens) {
  ExpectRandomNearReference(768, 35, 130);
  ExpectRandomNearReference(256, 2, 1030);
}

// Quants, scales and activations all at the ends of their ranges.
TEST_P(TileMatMulTest, ExtremeValuesDoNotOverflow) {
  constexpr size_t kRows = 5, kTokens = 9, kN = 768;
  const size_t row_bytes = BytesOf(dtype(), kN);
  const DTypeInfo& info = InfoOf(dtype());
  for (const uint8_t fill : {0x00, 0xFF, 0x80, 0x7F}) {
    // 65504, the smallest normal and the smallest number at all.
    for (const uint16_t scale : {0x7BFF, 0x0400, 0x0001}) {
      std::vector<std::byte> bytes(kRows * row_bytes,
                                   static_cast<std::byte>(fill));
      for (size_t at = 0; at < bytes.size(); at += info.block_bytes) {
        std::byte* block = bytes.data() + at;
        if (dtype() == DType::kQ6_K) block += offsetof(BlockQ6_K, d);
        std::memcpy(block, &scale, sizeof(scale));
        if (MinUnits() > 0) std::memcpy(block + 2, &scale, sizeof(scale));
      }
      const Weights weights = {bytes.data(), row_bytes, kRows, kN,
                               MinUnits() * F16ToF32(scale)};
      for (const float x : {1.0f, -1.0f}) {
        const Tokens tokens(std::vector<float>(kTokens * kN, x), kTokens, kN);
        ExpectNearReference(weights, tokens, kTokens);
      }
    }
  }
}

// A token's results do not depend on how many tokens come with it, on which
// they are, nor on its place among them.
TEST_P(TileMatMulTest, TokensAreIndependent) {
  constexpr size_t kRows = 37, kTokens = 70;
  for (size_t n : {size_t{256}, size_t{1280}}) {
    const WeightRows rows(dtype(), kRows, n, 1, n);
    const Weights weights = Of(rows, kRows, n);
    const Tokens tokens(RandomTokens(kTokens, n, n), kTokens, n);
    const std::vector<float> whole = Multiply(weights, tokens, 0, kTokens);
    for (size_t first = 0; first < kTokens; first += 1 + first % 3) {
      for (size_t count = 1; first + count <= kTokens; count += 1 + count / 3) {
        const std::vector<float> part = Multiply(weights, tokens, first, count);
        ASSERT_EQ(std::memcmp(whole.data() + first * (kRows + 2), part.data(),
                              part.size() * sizeof(float)),
                  0)
            << "tokens " << first << " + " << count << ", n " << n;
      }
    }
  }
}

TEST_P(TileMatMulTest, ManyTokensAreAsFew) {
  constexpr size_t kRows = 3, kTokens = 1030, kN = 768;
  const WeightRows rows(dtype(), kRows, kN, 1, 3);
  const Weights weights = Of(rows, kRows, kN);
  const Tokens tokens(RandomTokens(kTokens, kN, 3), kTokens, kN);
  const std::vector<float> whole = Multiply(weights, tokens, 0, kTokens);
  constexpr size_t kCount = 10;
  for (size_t first = 0; first + kCount <= kTokens; first += kCount) {
    const std::vector<float> part = Multiply(weights, tokens, first, kCount);
    ASSERT_EQ(std::memcmp(whole.data() + first * (kRows + 2), part.data(),
                          part.size() * sizeof(float)),
              0)
        << "tokens from " << first;
  }
}

// Bits are the same however rows are cut into calls.
TEST_P(TileMatMulTest, CutsOfRowsDoNotChangeBits) {
  constexpr size_t kRows = 75, kN = 1280;
  Random random(5);
  for (size_t count : {size_t{3}, size_t{70}}) {
    const WeightRows rows(dtype(), kRows, kN, 1, 7);
    const Weights weights = Of(rows, kRows, kN);
    const Tokens tokens(RandomTokens(count, kN, 7), count, kN);
    const std::vector<float> whole = Multiply(weights, tokens, 0, count);
    size_t end;
    for (size_t row = 0; row < kRows; row = end) {
      end = std::min<size_t>(kRows, row + 1 + random.Below(20));
      Weights part = weights;
      part.data = rows.row(row);
      part.num_rows = end - row;
      const std::vector<float> cut = Multiply(part, tokens, 0, count);
      for (size_t t = 0; t < count; ++t) {
        ASSERT_EQ(std::memcmp(whole.data() + t * (kRows + 2) + row,
                              cut.data() + t * (part.num_rows + 2),
                              part.num_rows * sizeof(float)),
                  0)
            << "rows " << row << " to " << end << ", token " << t;
      }
    }
  }
}

// A scale of weights that is not finite shows in its row alone.
TEST_P(TileMatMulTest, InfiniteWeightsAreNotLost) {
  constexpr size_t kN = 256;
  constexpr size_t kRows = 19;
  constexpr size_t kTokens = 5;
  const WeightRows rows(dtype(), kRows, kN, 0, 1);
  std::vector<std::byte> bytes(rows.data(),
                               rows.data() + kRows * rows.row_bytes());
  const size_t scale_offset =
      dtype() == DType::kQ6_K ? offsetof(BlockQ6_K, d) : 0;
  const Tokens tokens(RandomTokens(kTokens, kN, 2), kTokens, kN);
  for (const size_t bad : {0, 7, 18}) {
    for (const uint16_t scale : {0x7C00, 0x7E00}) {
      std::vector<std::byte> spoilt = bytes;
      std::memcpy(spoilt.data() + bad * rows.row_bytes() + scale_offset, &scale,
                  sizeof(scale));
      Weights weights = Of(rows, kRows, kN);
      weights.data = spoilt.data();
      const std::vector<float> out = Multiply(weights, tokens, 0, kTokens);
      for (size_t t = 0; t < kTokens; ++t) {
        for (size_t r = 0; r < kRows; ++r) {
          EXPECT_EQ(std::isfinite(out[t * (kRows + 2) + r]), r != bad)
              << "row " << r << ", not finite " << bad;
        }
      }
    }
  }
}

// The scale of an activation that is not finite shows.
TEST_P(TileMatMulTest, InfiniteActivationsAreNotLost) {
  constexpr size_t kN = 256;
  const WeightRows rows(dtype(), 1, kN, 0, 1);
  std::vector<float> x = RandomFloats(2 * kN, 2);
  x[5] = std::numeric_limits<float>::infinity();
  const Tokens tokens(x, 2, kN);
  const std::vector<float> out = Multiply(Of(rows, 1, kN), tokens, 0, 2);
  EXPECT_FALSE(std::isfinite(out[0]));
  EXPECT_TRUE(std::isfinite(out[3]));
}

// kAmx has the functions of kAvx512Vnni.
std::vector<Isa> TileIsas() {
  std::vector<Isa> isas = SupportedIsas();
  std::erase(isas, Isa::kScalar);
  std::erase(isas, Isa::kAmx);
  return isas;
}

INSTANTIATE_TEST_SUITE_P(Isas, TileMatMulTest,
                         testing::Combine(testing::ValuesIn(TileIsas()),
                                          testing::ValuesIn(kQuantTypes)),
                         IsaAndTypeName);

class TileBatchTest : public IsaTest {};
TC_FOR_EACH_ISA(TileBatchTest);

TEST_P(TileBatchTest, IsCompleteOrEmpty) {
  KernelTable table = {};
  FillTileMatMuls(GetParam(), table);
  const BatchMatMul& batch = table.batch;
  const bool is_empty = !batch;
  EXPECT_EQ(batch.group_bytes == nullptr, is_empty);
  EXPECT_EQ(batch.pack == nullptr, is_empty);
  EXPECT_EQ(batch.scratch_bytes == nullptr, is_empty);
  for (uint32_t id = 0; id < std::size(batch.multiply_by_type); ++id) {
    EXPECT_EQ(batch.multiply_by_type[id] != nullptr,
              !is_empty &&
                  std::ranges::count(kQuantTypes, static_cast<DType>(id)) > 0)
        << id;
    EXPECT_EQ(table.matmul_by_type[id], nullptr);
  }
}

TEST_P(TileBatchTest, SizesAreAlignedAndDoNotFall) {
  KernelTable table = {};
  FillTileMatMuls(GetParam(), table);
  const BatchMatMul& batch = table.batch;
  if (batch.group_bytes == nullptr) return;
  for (size_t n = 32; n < 4096; n += 32) {
    EXPECT_EQ(batch.group_bytes(n) % 64, 0u) << n;
    EXPECT_GE(batch.group_bytes(n), batch.group_bytes(n - 32)) << n;
    EXPECT_GE(batch.scratch_bytes(n), batch.scratch_bytes(n - 32)) << n;
  }
}

TEST(FillTileMatMulsTest, EveryVectorIsaHasTilesOfItsOwn) {
  std::vector<MatMulFn> seen;
  for (Isa isa : SupportedIsas()) {
    KernelTable table = {};
    FillTileMatMuls(isa, table);
    EXPECT_EQ(static_cast<bool>(table.batch), isa != Isa::kScalar)
        << NameOf(isa);
    if (isa == Isa::kScalar || isa == Isa::kAmx) continue;
    const MatMulFn multiply = table.batch.multiply(DType::kQ4_K);
    EXPECT_EQ(std::ranges::count(seen, multiply), 0) << NameOf(isa);
    seen.push_back(multiply);
  }
}

}  // namespace
}  // namespace thermocline::kernels

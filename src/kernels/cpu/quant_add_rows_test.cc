// What float_add_rows_test.cc does not ask of every type.
#include <limits>

#include "kernels/testing.h"
#include "tensor/blocks.h"
#include "tensor/float16.h"

namespace thermocline::kernels {
namespace {

class QuantAddRowsTest : public IsaTest {};
TC_FOR_EACH_ISA(QuantAddRowsTest);

std::vector<float> AddAll(const KernelTable& kernels, DType dtype,
                          const WeightRows& rows, size_t num_rows, size_t n,
                          LinesAhead* ahead) {
  const std::vector<float> coefs = RandomFloats(num_rows, 3);
  std::vector<float> out(n, 1.0f);
  kernels.add_rows(dtype)({.rows = rows.data(),
                           .row_bytes = rows.row_bytes(),
                           .ids = nullptr,
                           .coefs = coefs.data(),
                           .num_rows = num_rows,
                           .n = n,
                           .out = out.data(),
                           .ahead = ahead});
  return out;
}

TEST_P(QuantAddRowsTest, WorksOffListsOfEveryLength) {
  constexpr size_t kRows = 7;
  for (DType dtype : AllTypes()) {
    const size_t n = InfoOf(dtype).block_elems == 256 ? 768 : 800;
    const WeightRows rows(dtype, kRows, n, 10, 4);
    const std::vector<float> expected =
        AddAll(kernels(), dtype, rows, kRows, n, nullptr);
    const size_t read_lines = kRows * BytesOf(dtype, n) / 64;
    // Addresses are prefetched only: they need not be of anything.
    const std::vector<uintptr_t> lines(3 * read_lines, 0x40);
    for (size_t length = 0; length <= lines.size(); ++length) {
      LinesAhead ahead = {lines.data(), lines.data() + length};
      ASSERT_TRUE(
          SameBits(AddAll(kernels(), dtype, rows, kRows, n, &ahead), expected));
      ASSERT_EQ(ahead.end, lines.data() + length);
      if (GetParam() == Isa::kScalar) continue;
      const auto taken = static_cast<size_t>(ahead.next - lines.data());
      ASSERT_GE(taken, std::min(length, read_lines)) << NameOf(dtype);
      ASSERT_LE(taken, std::min(length, read_lines * 2)) << NameOf(dtype);
    }
  }
}

// However rows share calls, as long as their order stays, and their groups
// where it is groups that coefficients are rounded in.
TEST_P(QuantAddRowsTest, AnyCutOfTheListGivesTheSameBits) {
  constexpr size_t kRows = 19, kN = 768;
  const std::vector<float> coefs = RandomFloats(kRows, 3);
  for (DType dtype : AllTypes()) {
    if (GetParam() == Isa::kScalar) continue;  // sums a call in double
    const WeightRows rows(dtype, kRows, kN, 10, 4);
    std::vector<std::vector<float>> results;
    for (size_t step : {8, 1, 2, 3, 4, 5, 11, 16, 19}) {
      const bool cuts_groups = step < kRows && step % kAddRowsGroup != 0;
      if (cuts_groups && RoundsCoefs(GetParam(), dtype)) continue;
      std::vector<float>& out = results.emplace_back(kN, 1.0f);
      for (size_t i = 0; i < kRows; i += step) {
        kernels().add_rows(dtype)({.rows = rows.row(i),
                                   .row_bytes = rows.row_bytes(),
                                   .ids = nullptr,
                                   .coefs = coefs.data() + i,
                                   .num_rows = std::min(step, kRows - i),
                                   .n = kN,
                                   .out = out.data()});
      }
      EXPECT_TRUE(SameBits(out, results[0])) << NameOf(dtype) << " " << step;
    }
  }
}

// Whichever row of a group it is in.
TEST_P(QuantAddRowsTest, NotANumberStaysInItsBlock) {
  constexpr size_t kRows = 10, kBlocks = 16, kN = 512;
  for (size_t row = 0; row < kRows; ++row) {
    BlockQ4_0 blocks[kRows][kBlocks] = {};
    for (auto& row_blocks : blocks) {
      for (BlockQ4_0& block : row_blocks) block.d = F32ToF16(1.0f);
    }
    blocks[row][5].d = F32ToF16(std::numeric_limits<float>::quiet_NaN());
    const std::vector<float> coefs(kRows, 1.0f);
    std::vector<float> out(kN, 0.0f);
    kernels().add_rows(DType::kQ4_0)(
        {.rows = reinterpret_cast<const std::byte*>(blocks),
         .row_bytes = sizeof(blocks[0]),
         .ids = nullptr,
         .coefs = coefs.data(),
         .num_rows = kRows,
         .n = kN,
         .out = out.data()});
    for (size_t c = 0; c < kN; ++c) {
      ASSERT_EQ(std::isnan(out[c]), c / 32 == 5) << c << ", row " << row;
    }
  }
}

// An infinite coefficient cannot be rounded against; nor is it lost.
TEST_P(QuantAddRowsTest, InfinityIsNotLost) {
  const WeightRows rows(DType::kQ4_0, 3, 512, 10, 4);
  const std::vector<float> coefs = {1, std::numeric_limits<float>::infinity(),
                                    1};
  std::vector<float> out(512, 0.0f);
  kernels().add_rows(DType::kQ4_0)({.rows = rows.data(),
                                    .row_bytes = rows.row_bytes(),
                                    .ids = nullptr,
                                    .coefs = coefs.data(),
                                    .num_rows = 3,
                                    .n = 512,
                                    .out = out.data()});
  for (float value : out) ASSERT_FALSE(std::isfinite(value));
}

}  // namespace
}  // namespace thermocline::kernels

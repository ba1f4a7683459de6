// Known answers that every table must give, and the same bits as its matrix
// product.
#include "kernels/testing.h"

namespace thermocline::kernels {
namespace {

using ::testing::ElementsAre;

class DotRowsTest : public IsaTest {};
TC_FOR_EACH_ISA(DotRowsTest);

TEST_P(DotRowsTest, ListedRowsInAnyOrderAndTwice) {
  const std::vector<float> rows = {1, 2, 3, 0, 10, 20, 30, 0, 5, 6, 7, 0};
  const std::vector<float> x = {1, 1, 1, 2, 0, -1};
  const std::vector<uint32_t> ids = {2, 0, 2};
  std::vector<float> out(8, kSentinel);
  kernels().dot_rows(DType::kF32)({.rows = AsBytes(rows.data()),
                                   .row_bytes = 16,
                                   .ids = ids.data(),
                                   .num_rows = 3,
                                   .n = 3,
                                   .x = AsBytes(x.data()),
                                   .x_stride_bytes = 12,
                                   .num_tokens = 2,
                                   .out = out.data(),
                                   .out_stride = 4});
  EXPECT_THAT(out, ElementsAre(18, 6, 18, kSentinel, 3, -1, 3, kSentinel));
}

TEST_P(DotRowsTest, AnEmptyListWritesNothing) {
  const std::vector<float> x = {1, 1, 1};
  float out = kSentinel;
  uintptr_t line = 0;
  LinesAhead ahead = {&line, &line + 1};
  kernels().dot_rows(DType::kF32)({.rows = nullptr,
                                   .row_bytes = 12,
                                   .ids = nullptr,
                                   .num_rows = 0,
                                   .n = 3,
                                   .x = AsBytes(x.data()),
                                   .x_stride_bytes = 12,
                                   .num_tokens = 1,
                                   .out = &out,
                                   .out_stride = 1,
                                   .ahead = &ahead});
  EXPECT_EQ(out, kSentinel);
  EXPECT_EQ(ahead.next, &line);
}

// A product of listed rows, padded, with tokens.
struct DotProduct {
  DotProduct(DType dtype_arg, size_t num_rows, size_t n_arg, size_t max_tokens)
      : dtype(dtype_arg),
        n(n_arg),
        weights(dtype, num_rows, n, 6, n + num_rows),
        floats(RandomFloats(max_tokens * n, n + 1)) {
    if (InfoOf(dtype).block_elems > 1) {
      quants = std::make_shared<ActivationRows>(floats, max_tokens, n);
    }
  }

  const std::byte* x() const {
    return quants != nullptr ? quants->data() : AsBytes(floats.data());
  }
  size_t x_stride_bytes() const {
    return quants != nullptr ? quants->stride_bytes() : n * sizeof(float);
  }

  std::vector<float> Dot(const KernelTable& kernels,
                         const std::vector<uint32_t>& ids, size_t num_tokens,
                         LinesAhead* ahead = nullptr,
                         PreparedInput* prepared = nullptr) const {
    const size_t out_stride = ids.size() + 1;
    std::vector<float> out(num_tokens * out_stride, kSentinel);
    kernels.dot_rows(dtype)({.rows = weights.data(),
                             .row_bytes = weights.row_bytes(),
                             .ids = ids.data(),
                             .num_rows = ids.size(),
                             .n = n,
                             .x = x(),
                             .x_stride_bytes = x_stride_bytes(),
                             .num_tokens = num_tokens,
                             .out = out.data(),
                             .out_stride = out_stride,
                             .ahead = ahead,
                             .prepared = prepared});
    return out;
  }

  // The same by the matrix product of each row.
  std::vector<float> Multiply(const KernelTable& kernels,
                              const std::vector<uint32_t>& ids,
                              size_t num_tokens) const {
    const size_t out_stride = ids.size() + 1;
    std::vector<float> out(num_tokens * out_stride, kSentinel);
    for (size_t i = 0; i < ids.size(); ++i) {
      kernels.matmul(dtype)({.weights = weights.row(ids[i]),
                             .row_bytes = weights.row_bytes(),
                             .num_rows = 1,
                             .n = n,
                             .x = x(),
                             .x_stride_bytes = x_stride_bytes(),
                             .num_tokens = num_tokens,
                             .out = out.data() + i,
                             .out_stride = out_stride});
    }
    return out;
  }

  DType dtype;
  size_t n;
  WeightRows weights;
  std::vector<float> floats;
  std::shared_ptr<ActivationRows> quants;
};

// Rows at random; the last one, with which the memory ends, is among them.
std::vector<uint32_t> SomeRows(size_t count, uint32_t num_rows) {
  Random random(count);
  std::vector<uint32_t> ids(count, num_rows - 1);
  for (size_t i = 0; i + 1 < count; ++i) {
    ids[i] = static_cast<uint32_t>(random.Below(num_rows));
  }
  return ids;
}

TEST_P(DotRowsTest, GivesTheBitsOfTheMatrixProduct) {
  constexpr uint32_t kNumRows = 11;
  for (DType dtype : AllTypes()) {
    const size_t block = InfoOf(dtype).block_elems;
    // The last is more than the activations that any kernel prepares at a time;
    // 4096 is more than it prepares of several tokens.
    for (size_t n : {1, 31, 32, 96, 160, 256, 288, 512, 2048, 4096, 33024}) {
      if (n % block != 0) continue;
      const bool is_long = n > 2048;
      const DotProduct product(dtype, kNumRows, n, kListedTokens);
      for (size_t count : {1, 2, 3, 4, 5, 7, 8, 9, 31, 37, 70}) {
        if (is_long && count != 37) continue;
        const std::vector<uint32_t> ids = SomeRows(count, kNumRows);
        for (size_t t = 1; t <= kListedTokens; ++t) {
          if ((is_long || count > 9) && t != 1 && t != 3 && t != 8) continue;
          ASSERT_TRUE(SameBits(product.Dot(kernels(), ids, t),
                               product.Multiply(kernels(), ids, t)))
              << NameOf(dtype) << " n " << n << ", " << count << " rows, " << t
              << " tokens";
        }
      }
    }
  }
}

// From call to call, over types that share an input and numbers of tokens.
TEST_P(DotRowsTest, PreparedInputsChangeNothing) {
  const auto prepared = std::make_unique<PreparedInput>();
  for (const size_t n : {256, 1024, 33024}) {
    std::vector<DotProduct> products;
    for (const DType dtype : AllTypes()) products.emplace_back(dtype, 5, n, 2);
    const auto shared = std::ranges::find_if(
        products,
        [](const DotProduct& product) { return product.quants != nullptr; });
    for (DotProduct& product : products) {
      if (product.quants) product.quants = shared->quants;
    }
    for (const DotProduct& product : products) {
      for (const size_t count : {0, 3, 37}) {
        const std::vector<uint32_t> ids = SomeRows(count, 5);
        for (const size_t t : {1, 2, 1}) {
          ASSERT_TRUE(
              SameBits(product.Dot(kernels(), ids, t, nullptr, prepared.get()),
                       product.Dot(kernels(), ids, t)))
              << NameOf(product.dtype) << " n " << n << ", " << count
              << " rows, " << t << " tokens";
        }
      }
    }
  }
}

TEST_P(DotRowsTest, WorksOffListsOfEveryLength) {
  constexpr size_t kRows = 7;
  for (DType dtype : AllTypes()) {
    const DotProduct product(dtype, kRows, 768, 2);
    const std::vector<uint32_t> ids = SomeRows(kRows, kRows);
    const size_t read_lines = kRows * BytesOf(dtype, product.n) / 64;
    // Addresses are prefetched only: they need not be of anything.
    const std::vector<uintptr_t> lines(3 * read_lines, 0x40);
    for (size_t t : {1, 2}) {
      const std::vector<float> expected = product.Dot(kernels(), ids, t);
      for (size_t length = 0; length <= lines.size(); ++length) {
        LinesAhead ahead = {lines.data(), lines.data() + length};
        ASSERT_TRUE(SameBits(product.Dot(kernels(), ids, t, &ahead), expected));
        ASSERT_EQ(ahead.end, lines.data() + length);
        if (GetParam() == Isa::kScalar) continue;
        const auto taken = static_cast<size_t>(ahead.next - lines.data());
        ASSERT_GE(taken, std::min(length, read_lines)) << NameOf(dtype);
        ASSERT_LE(taken, std::min(length, read_lines * 2)) << NameOf(dtype);
      }
    }
  }
}

}  // namespace
}  // namespace thermocline::kernels

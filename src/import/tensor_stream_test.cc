#include "import/tensor_stream.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "gguf/gguf.h"
#include "os/test_folder.h"
#include "tensor/codec.h"

namespace thermocline::importer {
namespace {

// A tensor of these F32 values, streamed to a file and read back.
class StreamTest : public ::testing::Test {
 protected:
  Status Stream(const std::vector<float>& values, DType dtype, Shape shape,
                std::vector<uint32_t> rows = {}) {
    const SafeTensor source = {
        "source", "F32", DType::kF32, {}, std::as_bytes(std::span(values))};
    auto writer = gguf::Writer::Create(folder_ / "t.gguf").value();
    TC_RETURN_IF_ERROR(writer->DeclareTensor("t", dtype, shape));
    TC_RETURN_IF_ERROR(writer->Start());
    TC_RETURN_IF_ERROR(StreamSource(
        "folder", {"t", {&source}, dtype, shape, std::move(rows)}, 0, *writer));
    return writer->Finish();
  }

  std::vector<float> Read() const {
    const auto file = gguf::File::Open(folder_ / "t.gguf").value();
    const TensorView view = file->Tensor("t");
    std::vector<float> values(view.shape.num_elems());
    DequantizeRow(view.dtype, view.data, values);
    return values;
  }

  os::TestFolder folder_;
};

std::vector<float> Counting(size_t n) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = static_cast<float>(i);
  return values;
}

// More elements than one piece holds, in rows that do not divide the piece.
TEST_F(StreamTest, ManyPieces) {
  const auto values = Counting(3000 * 1001);
  ASSERT_TRUE(Stream(values, DType::kF32, {{1001, 3000, 1, 1}, 2}).has_value());
  EXPECT_EQ(Read(), values);
}

TEST_F(StreamTest, RowsInAnyOrderOfMatrixAndVector) {
  ASSERT_TRUE(Stream(Counting(12), DType::kF32, {{3, 4, 1, 1}, 2}, {2, 0, 3, 1})
                  .has_value());
  EXPECT_EQ(Read(), (std::vector<float>{6, 7, 8, 0, 1, 2, 9, 10, 11, 3, 4, 5}));
  ASSERT_TRUE(Stream(Counting(4), DType::kF32, {{4, 1, 1, 1}, 1}, {2, 0, 3, 1})
                  .has_value());
  EXPECT_EQ(Read(), (std::vector<float>{2, 0, 3, 1}));
}

// As OPT's positions, whose first two rows stay behind.
TEST_F(StreamTest, FewerRowsThanTheSourceHas) {
  ASSERT_TRUE(
      Stream(Counting(8), DType::kF32, {{2, 2, 1, 1}, 2}, {2, 3}).has_value());
  EXPECT_EQ(Read(), (std::vector<float>{4, 5, 6, 7}));
}

TEST_F(StreamTest, SourcesAreStacked) {
  const std::vector<float> a = {0, 1, 2, 3};
  const std::vector<float> b = {4, 5, 6, 7};
  const SafeTensor first = {
      "a", "F32", DType::kF32, {2, 2}, std::as_bytes(std::span(a))};
  const SafeTensor second = {
      "b", "F32", DType::kF32, {2, 2}, std::as_bytes(std::span(b))};
  const Shape shape = {{2, 2, 2, 1}, 3};
  auto writer = gguf::Writer::Create(folder_ / "t.gguf").value();
  ASSERT_TRUE(writer->DeclareTensor("t", DType::kF32, shape));
  ASSERT_TRUE(writer->Start());
  const PlannedTensor tensor = {"t", {&first, &second}, DType::kF32, shape, {}};
  ASSERT_TRUE(StreamSource("folder", tensor, 0, *writer));
  ASSERT_TRUE(StreamSource("folder", tensor, 1, *writer));
  ASSERT_TRUE(writer->Finish());
  EXPECT_EQ(Read(), Counting(8));
}

TEST_F(StreamTest, OneCanBeAdded) {
  const std::vector<float> values = {0, -0.5f, 0.25f};
  const SafeTensor source = {
      "norm", "F32", DType::kF32, {3}, std::as_bytes(std::span(values))};
  const Shape shape = {{3, 1, 1, 1}, 1};
  auto writer = gguf::Writer::Create(folder_ / "t.gguf").value();
  ASSERT_TRUE(writer->DeclareTensor("t", DType::kF32, shape));
  ASSERT_TRUE(writer->Start());
  const PlannedTensor tensor = {.name = "t",
                                .sources = {&source},
                                .dtype = DType::kF32,
                                .shape = shape,
                                .adds_one = true};
  ASSERT_TRUE(StreamSource("folder", tensor, 0, *writer));
  ASSERT_TRUE(writer->Finish());
  EXPECT_EQ(Read(), (std::vector<float>{1, 0.5f, 1.25f}));
}

TEST_F(StreamTest, QuantisedRowsAreThoseOfTheCodec) {
  const auto values = Counting(64 * 3);
  ASSERT_TRUE(Stream(values, DType::kQ4_0, {{64, 3, 1, 1}, 2}).has_value());
  std::vector<std::byte> bytes(BytesOf(DType::kQ4_0, values.size()));
  QuantizeRow(DType::kQ4_0, values, bytes.data());
  std::vector<float> expected(values.size());
  DequantizeRow(DType::kQ4_0, bytes.data(), expected);
  EXPECT_EQ(Read(), expected);
}

TEST_F(StreamTest, TheLargestNumberOfEachTypeIsStoredAndTheNextRefused) {
  struct Limit {
    DType dtype;
    float largest, stored;
    const char* others;
  };
  const Limit limits[] = {
      {DType::kF16, std::nextafter(65520.0f, 0.0f), 65504.0f, "BF16 or F32"},
      {DType::kQ8_0, 127 * 65504.0f, 127 * 65504.0f, "BF16 or F32"},
      {DType::kQ4_0, 8 * 65504.0f, 8 * 65504.0f, "BF16 or F32"},
      {DType::kBF16, 0x1.fefffep127f, 0x1.fep127f, "choose F32"}};
  const Shape shape = {{32, 1, 1, 1}, 2};
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const Limit& limit : limits) {
    std::vector<float> values(32, 0.0f);
    values[5] = -limit.largest;
    ASSERT_TRUE(Stream(values, limit.dtype, shape)) << NameOf(limit.dtype);
    EXPECT_EQ(Read()[5], -limit.stored) << NameOf(limit.dtype);
    values[5] = std::nextafter(values[5], -kInfinity);
    const Status status = Stream(values, limit.dtype, shape);
    ASSERT_FALSE(status.has_value()) << NameOf(limit.dtype);
    for (const std::string& part :
         {std::string("\"source\""), fmt::format("{}", values[5]),
          std::string(NameOf(limit.dtype)), std::string(limit.others)}) {
      EXPECT_NE(status.error().message.find(part), std::string::npos)
          << status.error().message;
    }
    EXPECT_TRUE(Stream(values, DType::kF32, shape).has_value());
  }
}

TEST_F(StreamTest, WhatIsNoNumberIsRefused) {
  const Shape shape = {{4, 1, 1, 1}, 2};
  for (const float bad : {std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_FALSE(Stream({bad, 0, 0, 0}, DType::kF32, shape).has_value());
  }
}

}  // namespace
}  // namespace thermocline::importer

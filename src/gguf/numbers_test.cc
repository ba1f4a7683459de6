#include "gguf/numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "gguf/test_file.h"

namespace thermocline::gguf {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

// The extremes of T, as the file has them.
template <typename T>
void ExpectExtremesOf(ValueType type) {
  constexpr T kLow = std::numeric_limits<T>::lowest();
  const T high = type == ValueType::kU64
                     ? static_cast<T>(std::numeric_limits<int64_t>::max())
                     : std::numeric_limits<T>::max();
  using Read = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;
  const std::string bytes = Raw(kLow) + Raw(high) + Raw(T{1});
  const Numbers<Read> numbers(type, std::as_bytes(std::span(bytes)));
  EXPECT_EQ(numbers.size(), 3u);
  EXPECT_EQ(numbers[1], static_cast<Read>(high)) << NameOf(type);
  EXPECT_THAT(numbers, ElementsAre(static_cast<Read>(kLow),
                                   static_cast<Read>(high), Read{1}));
  EXPECT_THAT(numbers.ToVector(), ElementsAreArray(numbers));
}

TEST(Numbers, EveryWidth) {
  ExpectExtremesOf<uint8_t>(ValueType::kU8);
  ExpectExtremesOf<int8_t>(ValueType::kI8);
  ExpectExtremesOf<uint16_t>(ValueType::kU16);
  ExpectExtremesOf<int16_t>(ValueType::kI16);
  ExpectExtremesOf<uint32_t>(ValueType::kU32);
  ExpectExtremesOf<int32_t>(ValueType::kI32);
  ExpectExtremesOf<uint64_t>(ValueType::kU64);
  ExpectExtremesOf<int64_t>(ValueType::kI64);
  ExpectExtremesOf<float>(ValueType::kF32);
  ExpectExtremesOf<double>(ValueType::kF64);
  const std::string bytes("\0\1", 2);
  EXPECT_THAT(
      Numbers<int64_t>(ValueType::kBool, std::as_bytes(std::span(bytes))),
      ElementsAre(0, 1));
}

TEST(Numbers, FromVectorsAndEmpty) {
  const std::vector<int64_t> values = {INT64_MIN, 0, INT64_MAX};
  EXPECT_THAT(Numbers<int64_t>(values), ElementsAreArray(values));
  EXPECT_THAT(Numbers<double>(std::vector{0.5, -1e300}),
              ElementsAre(0.5, -1e300));
  EXPECT_TRUE(Numbers<double>().empty());
  EXPECT_TRUE(Numbers<double>(std::vector<double>()).empty());
  EXPECT_EQ(Numbers<int64_t>(ValueType::kU16, {}).size(), 0u);
}

TEST(Numbers, AreEqualByValue) {
  const std::string bytes("\1\2", 2);
  const Numbers<int64_t> narrow(ValueType::kU8,
                                std::as_bytes(std::span(bytes)));
  EXPECT_EQ(narrow, (std::vector<int64_t>{1, 2}));
  EXPECT_NE(narrow, (std::vector<int64_t>{1, 3}));
  EXPECT_NE(narrow, (std::vector<int64_t>{1}));
}

}  // namespace
}  // namespace thermocline::gguf

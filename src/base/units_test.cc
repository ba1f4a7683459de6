#include "base/units.h"

#include <gtest/gtest.h>

#include "base/math.h"

namespace thermocline {
namespace {

TEST(UnitsTest, BytesUseBinaryUnits) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1536), "1.50 KiB");
  EXPECT_EQ(FormatBytes(3822520893), "3.56 GiB");
  EXPECT_EQ(FormatBytes(~uint64_t{0}), "16.00 EiB");
}

TEST(UnitsTest, CountsUseDecimalUnits) {
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(8800000), "8.80 M");
  EXPECT_EQ(FormatCount(6740000000), "6.74 B");
}

TEST(UnitsTest, OneIsNotMany) {
  EXPECT_EQ(Plural(0, "token"), "0 tokens");
  EXPECT_EQ(Plural(int64_t{1}, "token"), "1 token");
  EXPECT_EQ(Plural(~uint64_t{0}, "token"), "18446744073709551615 tokens");
}

TEST(MathTest, OverflowIsReported) {
  EXPECT_EQ(CheckedMul(3, 5), 15u);
  EXPECT_EQ(CheckedMul(uint64_t{1} << 32, uint64_t{1} << 32), std::nullopt);
  EXPECT_EQ(CheckedAdd(~uint64_t{0}, 0), ~uint64_t{0});
  EXPECT_EQ(CheckedAdd(~uint64_t{0}, 1), std::nullopt);
}

TEST(MathTest, RoundUpAndCeilDiv) {
  EXPECT_EQ(CeilDiv(7u, 3u), 3u);
  EXPECT_EQ(CeilDiv(6u, 3u), 2u);
  EXPECT_EQ(RoundUp(33u, 32u), 64u);
  EXPECT_EQ(RoundUp(0u, 32u), 0u);
}

TEST(FormatLeastBytesTest, IsEnough) {
  EXPECT_EQ(FormatLeastBytes(512), "512 B");
  EXPECT_EQ(FormatLeastBytes(2 << 20), "2.00 MiB");
  EXPECT_EQ(FormatLeastBytes((2 << 20) + 1), "2.01 MiB");
}

}  // namespace
}  // namespace thermocline

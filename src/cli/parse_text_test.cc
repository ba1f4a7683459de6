#include "cli/parse_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace thermocline::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ParseIntTest, TakesDecimalOnly) {
  EXPECT_EQ(ParseInt("010", 0, 100).value(), 10);
  EXPECT_EQ(ParseInt("-1", -1, 100).value(), -1);
  for (const char* bad :
       {"", " 1", "1 ", "1x", "0x10", "+1", "1.5", "-", "x"}) {
    EXPECT_FALSE(ParseInt(bad, -100, 100).has_value()) << bad;
  }
}

TEST(ParseIntTest, ChecksTheRange) {
  EXPECT_THAT(ParseInt("101", 1, 100).error().message,
              HasSubstr("101 is out of range, allowed is 1 to 100"));
  EXPECT_FALSE(ParseInt("0", 1, 100).has_value());
  EXPECT_THAT(ParseInt("99999999999999999999", 0, INT64_MAX).error().message,
              HasSubstr("out of range"));
}

TEST(ParseFloatTest, TakesFiniteNumbersOnly) {
  EXPECT_DOUBLE_EQ(ParseFloat("0.5", 0, 1).value(), 0.5);
  EXPECT_DOUBLE_EQ(ParseFloat("1e-2", 0, 1).value(), 0.01);
  EXPECT_DOUBLE_EQ(ParseFloat("-1", -1, 1).value(), -1.0);
  for (const char* bad : {"", "nan", "inf", "-inf", "1e999", "0.5f", ",5"}) {
    EXPECT_FALSE(ParseFloat(bad, -1e30, 1e30).has_value()) << bad;
  }
  EXPECT_FALSE(ParseFloat("1.5", 0, 1).has_value());
}

TEST(ParseSizeTest, TakesUnitsOfBytes) {
  const struct {
    const char* text;
    uint64_t num_bytes;
  } good[] = {
      {"0", 0},          {"1024", 1024},      {"4GiB", uint64_t{4} << 30},
      {"1.5 KiB", 1536}, {"512M", 512 << 20}, {"2GB", 2000000000},
      {"7B", 7}};
  for (const auto& [text, num_bytes] : good) {
    EXPECT_EQ(ParseSize(text).value(), num_bytes) << text;
  }
  for (const char* bad :
       {"", "GiB", "-1GiB", "4gib", "4 Gib", "1e30GiB", "nan", "4GiBs"}) {
    const auto size = ParseSize(bad);
    ASSERT_FALSE(size.has_value()) << bad;
    EXPECT_THAT(size.error().message, HasSubstr("is not a size"));
  }
}

TEST(ParseSizesTest, SplitsAtCommas) {
  EXPECT_THAT(ParseSizes("1KiB,2").value(), ElementsAre(1024, 2));
  EXPECT_THAT(ParseSizes("3").value(), ElementsAre(3));
  for (const char* bad : {"", "1,", ",1", "1,,2"}) {
    EXPECT_FALSE(ParseSizes(bad).has_value()) << bad;
  }
}

TEST(ParseIntListTest, SplitsAtCommasAndSpace) {
  EXPECT_THAT(ParseIntList("1,15,7", 0, 100).value(), ElementsAre(1, 15, 7));
  EXPECT_THAT(ParseIntList(" 1, 2\n3\t4\r\n", 0, 100).value(),
              ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(ParseIntList("1,x", 0, 9).error().message, HasSubstr("'x'"));
  EXPECT_FALSE(ParseIntList("", 0, 9).has_value());
  EXPECT_FALSE(ParseIntList(" ,\n", 0, 9).has_value());
  for (const char* text : {"1,,3", "1,2,", ",1", "1 , ,2", "1, "}) {
    EXPECT_FALSE(ParseIntList(text, 0, 9).has_value()) << text;
  }
  EXPECT_THAT(ParseIntList("1 , 2 ", 0, 9).value(), ElementsAre(1, 2));
  EXPECT_FALSE(ParseIntList("1,10", 0, 9).has_value());
}

TEST(ProcessEscapesTest, KnowsLlamaCppsEscapes) {
  EXPECT_EQ(ProcessEscapes(R"(a\nb\tc\rd\\e\"f\'g)"), "a\nb\tc\rd\\e\"f'g");
  EXPECT_EQ(ProcessEscapes(R"(\x41\x7e\xff.)"), "A~\xff.");
  EXPECT_EQ(ProcessEscapes(R"(\\n)"), R"(\n)");
}

TEST(ProcessEscapesTest, LeavesOtherBackslashes) {
  for (const char* text : {R"(\q)", R"(\)", R"(a\)", R"(\x)", R"(\x4)",
                           R"(\xg1)", R"(\x-1)", R"(\x 1)", ""}) {
    EXPECT_EQ(ProcessEscapes(text), text);
  }
}

}  // namespace
}  // namespace thermocline::cli

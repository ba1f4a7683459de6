#include "model/key_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "gguf/test_file.h"

namespace thermocline::model {
namespace {

using gguf::Raw;
using gguf::ValueType;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class KeyReaderTest : public ::testing::Test {
 protected:
  KeyReaderTest()
      : parsed_(gguf::TestFile()
                    .SetU32("a.five", 5)
                    .Set("a.minus", ValueType::kI64, Raw(int64_t{-1}))
                    .SetF32("a.half", 0.5f)
                    .SetF32("a.nan", std::numeric_limits<float>::quiet_NaN())
                    .SetF32("a.inf", std::numeric_limits<float>::infinity())
                    .SetText("a.text", "x")
                    .SetNumbers<uint32_t>("a.same", ValueType::kU32, {7, 7, 7})
                    .SetNumbers<uint32_t>("a.diff", ValueType::kU32, {7, 7, 8})
                    .SetNumbers<float>("a.floats", ValueType::kF32, {1, 1, 1})
                    .SetNumbers<uint32_t>("a.none", ValueType::kU32, {})
                    .Bytes()),
        keys_(**parsed_.file, "a") {}

  gguf::ParsedCopy parsed_;
  KeyReader keys_;
};

TEST_F(KeyReaderTest, Integers) {
  EXPECT_EQ(keys_.RequireInt("five", 5, 5).value(), 5);
  EXPECT_EQ(keys_.IntOr("five", 0, 9, 1).value(), 5);
  EXPECT_EQ(keys_.IntOr("absent", 0, 9, 100).value(), 100);
  EXPECT_EQ(keys_.RequireInt("minus", -1, 0).value(), -1);
}

TEST_F(KeyReaderTest, IntegersOutOfRange) {
  const auto above = keys_.RequireInt("five", 0, 4);
  ASSERT_FALSE(above);
  EXPECT_EQ(above.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(above.error().message,
            "test.gguf: key \"a.five\" is 5; 0 to 4 are possible");
  EXPECT_FALSE(keys_.RequireInt("five", 6, 9));
  EXPECT_FALSE(keys_.IntOr("five", 6, 9, 6));
}

TEST_F(KeyReaderTest, Extents) {
  EXPECT_EQ(keys_.RequireExtent("five", 5, 5).value(), 5u);
  EXPECT_EQ(keys_.ExtentOr("five", 0, 9, 1).value(), 5u);
  EXPECT_EQ(keys_.ExtentOr("absent", 0, 9, 100).value(), 100u);
  EXPECT_FALSE(keys_.RequireExtent("five", 6, 9));
  EXPECT_FALSE(keys_.RequireExtent("absent", 0, 9));
  // Not taken for a huge one.
  const auto negative = keys_.ExtentOr("minus", 0, INT64_MAX, 1);
  ASSERT_FALSE(negative);
  EXPECT_THAT(negative.error().message,
              HasSubstr("key \"a.minus\" is -1; 0 to 9223372036854775807"));
}

TEST_F(KeyReaderTest, MissingAndOfAnotherType) {
  EXPECT_THAT(keys_.RequireInt("absent", 0, 9).error().message,
              HasSubstr("key \"a.absent\" is missing"));
  EXPECT_THAT(keys_.RequireFloat("absent", 0, 9).error().message,
              HasSubstr("key \"a.absent\" is missing"));
  EXPECT_FALSE(keys_.RequireInt("text", 0, 9));
  EXPECT_FALSE(keys_.IntOr("text", 0, 9, 1));
  EXPECT_FALSE(keys_.RequireInt("half", 0, 9));
  EXPECT_FALSE(keys_.RequireInt("same", 0, 9));
  EXPECT_FALSE(keys_.RequireFloat("five", 0, 9));
  EXPECT_FALSE(keys_.FloatOr("text", 0, 9, 1));
}

TEST_F(KeyReaderTest, Floats) {
  EXPECT_EQ(keys_.RequireFloat("half", 0.5, 0.5).value(), 0.5);
  EXPECT_EQ(keys_.FloatOr("half", 0, 1, 0.1).value(), 0.5);
  EXPECT_EQ(keys_.FloatOr("absent", 0, 1, 7.0).value(), 7.0);
  EXPECT_FALSE(keys_.RequireFloat("half", 0.6, 1));
  EXPECT_FALSE(keys_.RequireFloat("half", 0, 0.4));
  EXPECT_FALSE(keys_.RequireFloat("nan", -1e30, 1e30));
  EXPECT_FALSE(keys_.RequireFloat("inf", -1e30, 1e30));
}

TEST_F(KeyReaderTest, PerLayerNumbers) {
  EXPECT_THAT(keys_.PerLayer("five", 3, 1, 9, std::nullopt).value(),
              ElementsAre(5, 5, 5));
  EXPECT_THAT(keys_.PerLayer("diff", 3, 1, 9, std::nullopt).value(),
              ElementsAre(7, 7, 8));
  EXPECT_THAT(keys_.PerLayer("absent", 3, 1, 9, 4).value(),
              ElementsAre(4, 4, 4));
  EXPECT_FALSE(keys_.PerLayer("absent", 3, 1, 9, std::nullopt));
  EXPECT_FALSE(keys_.PerLayer("diff", 3, 1, 7, std::nullopt));
  EXPECT_FALSE(keys_.PerLayer("floats", 3, 1, 9, std::nullopt));
}

TEST_F(KeyReaderTest, ArraysOfAnotherLength) {
  const auto length = keys_.PerLayer("same", 2, 1, 9, std::nullopt);
  ASSERT_FALSE(length);
  EXPECT_EQ(length.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(length.error().message,
              AllOf(HasSubstr("a.same"), HasSubstr("3 elements"),
                    HasSubstr("2 layers")));
  EXPECT_FALSE(keys_.PerLayer("none", 3, 1, 9, std::nullopt));
}

}  // namespace
}  // namespace thermocline::model

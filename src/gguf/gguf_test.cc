#include "gguf/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gguf/test_file.h"

namespace thermocline::gguf {
namespace {

using ::testing::HasSubstr;

class TypedAccess : public ::testing::Test {
 protected:
  TypedAccess()
      : parsed_(TestFile()
                    .SetU32("u32", 4294967295u)
                    .Set("i64", ValueType::kI64, Raw(int64_t{-5}))
                    .Set("large", ValueType::kU64, Raw(~uint64_t{0}))
                    .SetF32("f32", 0.5f)
                    .Set("f64", ValueType::kF64, Raw(0.25))
                    .SetBool("bool", true)
                    .SetText("text", "hello")
                    .SetTexts("texts", {"a", "b"})
                    .SetTensor("t", DType::kF16, {4, 2})
                    .Bytes()) {}
  const File& file() const { return **parsed_.file; }

 private:
  ParsedCopy parsed_;
};

TEST_F(TypedAccess, GivesTheValue) {
  EXPECT_EQ(file().Int("u32").value(), 4294967295);
  EXPECT_EQ(file().Int("i64").value(), -5);
  EXPECT_EQ(file().Float("f32").value(), 0.5);
  EXPECT_EQ(file().Float("f64").value(), 0.25);
  EXPECT_EQ(file().Bool("bool").value(), true);
  EXPECT_EQ(file().String("text").value(), "hello");
}

TEST_F(TypedAccess, AbsentIsNotAnError) {
  EXPECT_EQ(file().Int("no").value(), std::nullopt);
  EXPECT_EQ(file().Float("no").value(), std::nullopt);
  EXPECT_EQ(file().Bool("no").value(), std::nullopt);
  EXPECT_EQ(file().String("no").value(), std::nullopt);
}

TEST_F(TypedAccess, AnotherTypeIsNamed) {
  const auto text_as_int = file().Int("text");
  ASSERT_FALSE(text_as_int);
  EXPECT_EQ(text_as_int.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(text_as_int.error().message,
            "test.gguf: key \"text\" is string; expected an integer");
  EXPECT_THAT(file().String("texts").error().message,
              HasSubstr("an array of 2 string; expected string"));
  EXPECT_THAT(file().Int("large").error().message,
              HasSubstr("is u64 18446744073709551615, above 2^63 - 1"));
  EXPECT_FALSE(file().Int("f32"));
  EXPECT_FALSE(file().Int("bool"));
  EXPECT_FALSE(file().Float("u32"));
  EXPECT_FALSE(file().Bool("u32"));
  EXPECT_FALSE(file().String("bool"));
}

TEST_F(TypedAccess, TensorViews) {
  const TensorView view = file().Tensor("t");
  ASSERT_TRUE(view);
  EXPECT_EQ(view.dtype, DType::kF16);
  EXPECT_EQ(view.num_bytes(), 16u);
  EXPECT_FALSE(file().Tensor("absent"));
}

TEST(ValueTypes, HaveNames) {
  EXPECT_EQ(NameOf(ValueType::kU8), "u8");
  EXPECT_EQ(NameOf(ValueType::kI8), "i8");
  EXPECT_EQ(NameOf(ValueType::kU16), "u16");
  EXPECT_EQ(NameOf(ValueType::kI16), "i16");
  EXPECT_EQ(NameOf(ValueType::kU32), "u32");
  EXPECT_EQ(NameOf(ValueType::kI32), "i32");
  EXPECT_EQ(NameOf(ValueType::kF32), "f32");
  EXPECT_EQ(NameOf(ValueType::kBool), "bool");
  EXPECT_EQ(NameOf(ValueType::kString), "string");
  EXPECT_EQ(NameOf(ValueType::kArray), "array");
  EXPECT_EQ(NameOf(ValueType::kU64), "u64");
  EXPECT_EQ(NameOf(ValueType::kI64), "i64");
  EXPECT_EQ(NameOf(ValueType::kF64), "f64");
}

TEST(Array, KnowsItsSize) {
  EXPECT_EQ((Array{ValueType::kI8, std::vector<int64_t>(3)}.size()), 3u);
  EXPECT_EQ((Array{ValueType::kF32, std::vector<double>(2)}.size()), 2u);
  EXPECT_EQ((Array{ValueType::kString, std::vector<std::string>(1)}.size()),
            1u);
}

}  // namespace
}  // namespace thermocline::gguf

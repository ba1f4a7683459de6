#include "gguf/parse_value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "gguf/test_file.h"

namespace thermocline::gguf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The value that `bytes` (type number first) hold.
Result<KeyValue> ReadFrom(const std::string& bytes) {
  ByteReader reader(std::as_bytes(std::span(bytes)));
  KeyValue kv;
  TC_RETURN_IF_ERROR(ReadTypedValue(reader, kv));
  EXPECT_EQ(reader.remaining(), 0u) << "bytes left over";
  return kv;
}

std::string ArrayBytes(ValueType elem, uint64_t count, std::string elements) {
  return Raw(ValueType::kArray) + Raw(elem) + Raw(count) + elements;
}

template <typename T>
int64_t IntFrom(ValueType type, T value) {
  const auto kv = ReadFrom(Raw(type) + Raw(value));
  EXPECT_TRUE(kv) << kv.error().message;
  EXPECT_EQ(kv->type, type);
  return std::get<int64_t>(kv->value);
}

TEST(ReadTypedValue, IntegersOfEveryWidth) {
  EXPECT_EQ(IntFrom(ValueType::kU8, uint8_t{255}), 255);
  EXPECT_EQ(IntFrom(ValueType::kI8, int8_t{-128}), -128);
  EXPECT_EQ(IntFrom(ValueType::kU16, uint16_t{65535}), 65535);
  EXPECT_EQ(IntFrom(ValueType::kI16, int16_t{-32768}), -32768);
  EXPECT_EQ(IntFrom(ValueType::kU32, uint32_t{4294967295u}), 4294967295);
  EXPECT_EQ(IntFrom(ValueType::kI32, int32_t{INT32_MIN}), INT32_MIN);
  EXPECT_EQ(IntFrom(ValueType::kI64, INT64_MIN), INT64_MIN);
  EXPECT_EQ(IntFrom(ValueType::kU64, uint64_t{INT64_MAX}), INT64_MAX);
}

// Hashes have such values.
TEST(ReadTypedValue, U64AboveInt64IsKept) {
  constexpr uint64_t kLarge = uint64_t{1} << 63;
  const auto kv = ReadFrom(Raw(ValueType::kU64) + Raw(kLarge));
  ASSERT_TRUE(kv);
  EXPECT_EQ(std::get<uint64_t>(kv->value), kLarge);
  const auto array = ReadFrom(
      ArrayBytes(ValueType::kU64, 2, Raw(uint64_t{1}) + Raw(~uint64_t{0})));
  ASSERT_TRUE(array);
  EXPECT_EQ(array->Elements<int64_t>(), nullptr);
  ASSERT_NE(array->Elements<uint64_t>(), nullptr);
  EXPECT_THAT(*array->Elements<uint64_t>(), ElementsAre(1, ~uint64_t{0}));
}

TEST(ReadTypedValue, Floats) {
  EXPECT_EQ(std::get<double>(ReadFrom(Raw(ValueType::kF32) + Raw(0.1f))->value),
            static_cast<double>(0.1f));
  EXPECT_EQ(std::get<double>(ReadFrom(Raw(ValueType::kF64) + Raw(0.1))->value),
            0.1);
}

TEST(ReadTypedValue, BoolsAreZeroOrOne) {
  const std::string type = Raw(ValueType::kBool);
  EXPECT_EQ(std::get<bool>(ReadFrom(type + '\0')->value), false);
  EXPECT_EQ(std::get<bool>(ReadFrom(type + '\1')->value), true);
  const auto kv = ReadFrom(type + '\2');
  ASSERT_FALSE(kv);
  EXPECT_THAT(kv.error().message, HasSubstr("byte 2"));
}

TEST(ReadTypedValue, StringsMayHoldAnything) {
  const std::string text("a\0b\xff", 4);
  EXPECT_EQ(std::get<std::string>(
                ReadFrom(Raw(ValueType::kString) + RawText(text))->value),
            text);
  EXPECT_EQ(std::get<std::string>(
                ReadFrom(Raw(ValueType::kString) + RawText(""))->value),
            "");
}

TEST(ReadTypedValue, ArraysReadAsTheWidestType) {
  const auto ints = ReadFrom(
      ArrayBytes(ValueType::kI16, 2, Raw(int16_t{-3}) + Raw(int16_t{7})));
  const Array& array = std::get<Array>(ints->value);
  EXPECT_EQ(array.elem_type, ValueType::kI16);
  EXPECT_THAT(std::get<Numbers<int64_t>>(array.values), ElementsAre(-3, 7));

  const auto floats =
      ReadFrom(ArrayBytes(ValueType::kF32, 2, Raw(1.5f) + Raw(-2.0f)));
  EXPECT_THAT(std::get<Numbers<double>>(std::get<Array>(floats->value).values),
              ElementsAre(1.5, -2.0));

  const auto texts =
      ReadFrom(ArrayBytes(ValueType::kString, 2, RawText("ab") + RawText("")));
  EXPECT_THAT(
      std::get<std::vector<std::string>>(std::get<Array>(texts->value).values),
      ElementsAre("ab", ""));

  const auto bools =
      ReadFrom(ArrayBytes(ValueType::kBool, 2, std::string("\1\0", 2)));
  EXPECT_THAT(std::get<Numbers<int64_t>>(std::get<Array>(bools->value).values),
              ElementsAre(1, 0));
}

TEST(ReadTypedValue, EmptyArrays) {
  for (ValueType elem : {ValueType::kU8, ValueType::kF64, ValueType::kString}) {
    const auto kv = ReadFrom(ArrayBytes(elem, 0, ""));
    ASSERT_TRUE(kv);
    EXPECT_EQ(std::get<Array>(kv->value).size(), 0u);
  }
}

TEST(ReadTypedValue, RefusesArrayElementsOutOfRange) {
  EXPECT_FALSE(ReadFrom(ArrayBytes(ValueType::kBool, 1, "\2")));
}

TEST(ReadTypedValue, RefusesNestedArrays) {
  std::string bytes;
  for (int i = 0; i < 100000; ++i) {
    bytes += Raw(ValueType::kArray) + Raw(uint64_t{1});
  }
  const auto kv = ReadFrom(Raw(ValueType::kArray) + bytes);
  ASSERT_FALSE(kv);
  EXPECT_EQ(kv.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(kv.error().message, HasSubstr("array of arrays"));
}

TEST(ReadTypedValue, RefusesUnknownTypes) {
  for (uint32_t type : {13u, 255u, 0x80000000u, 0xffffffffu}) {
    const auto value = ReadFrom(Raw(type) + Raw(uint64_t{0}));
    ASSERT_FALSE(value);
    EXPECT_THAT(value.error().message, HasSubstr("unknown value type"));
    EXPECT_FALSE(ReadFrom(Raw(ValueType::kArray) + Raw(type) +
                          Raw(uint64_t{1}) + Raw(uint64_t{0})));
  }
}

TEST(ReadTypedValue, ChecksCountsBeforeAllocating) {
  // Were memory asked for these, the test would not survive.
  for (uint64_t count : {uint64_t{2}, uint64_t{1} << 30, uint64_t{1} << 31,
                         uint64_t{1} << 61, ~uint64_t{0}}) {
    for (uint32_t elem = 0; elem <= 12; ++elem) {
      EXPECT_FALSE(ReadFrom(
          ArrayBytes(static_cast<ValueType>(elem), count, std::string(1, 0))))
          << count << " of type " << elem;
    }
    EXPECT_FALSE(ReadFrom(Raw(ValueType::kString) + Raw(count) + "x"));
  }
}

}  // namespace
}  // namespace thermocline::gguf

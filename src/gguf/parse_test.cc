#include "gguf/parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gguf/test_file.h"

namespace thermocline::gguf {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kHuge = uint64_t{1} << 62;

// The message with which the file is refused, or "" if it is not.
std::string Refusal(TestFile file) {
  const ParsedCopy parsed(file.Bytes());
  return parsed.file ? "" : parsed.file.error().message;
}
ErrorCode CodeOf(TestFile file) {
  const ParsedCopy parsed(file.Bytes());
  EXPECT_FALSE(parsed.file);
  return parsed.file ? ErrorCode::kCancelled : parsed.file.error().code;
}

TestFile OneTensor(std::vector<uint64_t> ne, uint32_t dtype, uint64_t offset,
                   size_t num_data_bytes) {
  TestFile file;
  file.AppendTensorInfo("t", std::move(ne), dtype, offset);
  file.AppendData(num_data_bytes);
  return file;
}

TEST(Parse, EmptyModel) {
  for (uint32_t version : {2u, 3u}) {
    TestFile file;
    file.version = version;
    const std::string bytes = file.Bytes();
    EXPECT_EQ(bytes.size(), 24u);
    const ParsedCopy parsed(bytes);
    ASSERT_TRUE(parsed.file) << parsed.file.error().message;
    EXPECT_EQ((*parsed.file)->version(), version);
    EXPECT_EQ((*parsed.file)->num_file_bytes(), 24u);
    EXPECT_EQ((*parsed.file)->num_shards(), 1);
    EXPECT_TRUE((*parsed.file)->metadata().empty());
    EXPECT_TRUE((*parsed.file)->tensors().empty());
  }
}

TEST(Parse, KeysAndTensorsInTheFilesOrder) {
  TestFile file;
  file.SetU32("b", 7).SetText("a", "text");
  file.SetTensor("y", DType::kF32, {3}, Raw(1.0f) + Raw(2.0f) + Raw(3.0f));
  file.SetTensor("x", DType::kQ8_0, {64, 2, 1, 3});
  const ParsedCopy parsed(file.Bytes());
  ASSERT_TRUE(parsed.file) << parsed.file.error().message;
  const File& f = **parsed.file;
  ASSERT_EQ(f.metadata().size(), 2u);
  EXPECT_EQ(f.metadata()[0].key, "b");
  EXPECT_EQ(f.metadata()[1].key, "a");
  ASSERT_EQ(f.tensors().size(), 2u);
  const TensorInfo& y = f.tensors()[0];
  EXPECT_EQ(y.name, "y");
  EXPECT_EQ(y.num_bytes, 12u);
  EXPECT_EQ(std::memcmp(y.data, (Raw(1.0f) + Raw(2.0f) + Raw(3.0f)).data(), 12),
            0);
  const TensorInfo& x = f.tensors()[1];
  EXPECT_EQ(x.dtype, DType::kQ8_0);
  EXPECT_EQ(ToString(x.shape), "[64, 2, 1, 3]");
  EXPECT_EQ(x.num_bytes, 6u * 2 * 34);
  EXPECT_EQ(x.data - y.data, 32);
  EXPECT_EQ(x.span(), (FileSpan{0, y.offset + 32, x.num_bytes}));
  EXPECT_EQ(f.Find("b"), &f.metadata()[0]);
  EXPECT_EQ(f.Find("c"), nullptr);
  EXPECT_EQ(f.FindTensor("x"), &x);
  EXPECT_EQ(f.FindTensor("z"), nullptr);
}

TEST(Parse, PowerInfersMagicIsTheSameFormat) {
  TestFile file;
  file.magic = "PWRI";
  const std::string bytes = file.Bytes();
  const auto parsed = ParseFile(std::as_bytes(std::span(bytes)));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->container, Container::kPowerInfer);
}

// Only there, and only lists of numbers: a layer of a split file without hot
// neurons.
TEST(Parse, ListsWithoutElements) {
  const auto parse = [](const std::string& magic, DType dtype,
                        std::vector<uint64_t> ne) {
    TestFile file;
    file.magic = magic;
    file.SetTensor("before", DType::kI32, {8})
        .SetTensor("list", dtype, std::move(ne))
        .SetTensor("after", DType::kI32, {8});
    const std::string bytes = file.Bytes();
    return ParseFile(std::as_bytes(std::span(bytes)));
  };
  const auto parsed = parse("PWRI", DType::kI32, {0});
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->tensors[1].num_bytes, 0u);
  EXPECT_EQ(parsed->tensors[1].offset, parsed->tensors[2].offset);
  EXPECT_FALSE(parse("GGUF", DType::kI32, {0}));
  EXPECT_FALSE(parse("PWRI", DType::kF32, {0}));
  EXPECT_FALSE(parse("PWRI", DType::kI32, {0, 4}));
  EXPECT_FALSE(parse("PWRI", DType::kI32, {4, 0}));
}

TEST(Parse, MagicSaysWhatItIsInstead) {
  TestFile file;
  file.magic = "tjgg";
  EXPECT_EQ(CodeOf(file), ErrorCode::kUnsupported);
  file.magic = "vers";
  EXPECT_THAT(Refusal(file), HasSubstr("Git LFS"));
  file.magic = "<!DO";
  EXPECT_THAT(Refusal(file), HasSubstr("HTML"));
  file.magic = "PK\3\4";
  EXPECT_THAT(Refusal(file), HasSubstr("zip"));
  file.magic = "\1\2\3\4";
  EXPECT_EQ(CodeOf(file), ErrorCode::kCorrupt);
  EXPECT_THAT(Refusal(file), HasSubstr("\\x01"));
}

TEST(Parse, EmptyAndTinyFiles) {
  EXPECT_THAT(ParsedCopy("").file.error().message, HasSubstr("empty"));
  EXPECT_THAT(ParsedCopy("GG").file.error().message, HasSubstr("\"GG\""));
  EXPECT_THAT(ParsedCopy("GGUF").file.error().message, HasSubstr("truncated"));
}

TEST(Parse, Versions) {
  TestFile file;
  file.version = 1;
  EXPECT_EQ(CodeOf(file), ErrorCode::kUnsupported);
  EXPECT_THAT(Refusal(file), HasSubstr("version 1"));
  file.version = 0;
  EXPECT_EQ(CodeOf(file), ErrorCode::kCorrupt);
  file.version = 4;
  EXPECT_EQ(CodeOf(file), ErrorCode::kUnsupported);
  for (uint32_t swapped : {0x02000000u, 0x03000000u}) {
    file.version = swapped;
    EXPECT_EQ(CodeOf(file), ErrorCode::kUnsupported);
    EXPECT_THAT(Refusal(file), HasSubstr("big-endian"));
  }
}

TEST(Parse, HeaderCountsThatCannotBe) {
  for (uint64_t count : {uint64_t{100}, uint64_t{1} << 31, uint64_t{1} << 32,
                         uint64_t{1} << 63, ~uint64_t{0}}) {
    TestFile keys;
    keys.num_keys = count;
    EXPECT_THAT(Refusal(keys), HasSubstr("promises")) << count;
    TestFile tensors;
    tensors.num_tensors = count;
    EXPECT_THAT(Refusal(tensors), HasSubstr("promises")) << count;
  }
  TestFile between = TestFile().SetText("k", std::string(400, 'x'));
  between.num_tensors = 5;  // room before the key is read, not behind it
  EXPECT_THAT(Refusal(between), HasSubstr("cannot be described"));
}

TEST(Parse, KeyNames) {
  EXPECT_EQ(Refusal(TestFile().SetU32(std::string(65535, 'k'), 1)), "");
  EXPECT_THAT(Refusal(TestFile().SetU32(std::string(65536, 'k'), 1)),
              HasSubstr("at most 65535"));
  EXPECT_THAT(Refusal(TestFile().SetU32("", 1)), HasSubstr("empty"));
  TestFile twice;
  twice.SetU32("a", 1).SetU32("b", 1).Append("a", ValueType::kU8, "x");
  EXPECT_EQ(CodeOf(twice), ErrorCode::kCorrupt);
  EXPECT_THAT(Refusal(twice), HasSubstr("\"a\" occurs twice"));
}

TEST(Parse, ErrorsNameFileAndKey) {
  const std::string message =
      Refusal(TestFile().Set("some.key", ValueType::kBool, "\7"));
  EXPECT_THAT(message, HasSubstr("test.gguf: "));
  EXPECT_THAT(message, HasSubstr("some.key"));
}

TEST(Parse, TensorNames) {
  EXPECT_EQ(
      Refusal(TestFile().SetTensor(std::string(64, 't'), DType::kF32, {1})),
      "");
  EXPECT_THAT(
      Refusal(TestFile().SetTensor(std::string(65, 't'), DType::kF32, {1})),
      HasSubstr("at most 64"));
  EXPECT_THAT(Refusal(TestFile().SetTensor("", DType::kF32, {1})),
              HasSubstr("name of tensor 0 is empty"));
  TestFile twice;
  twice.AppendTensorInfo("a", {1}, 0, 0).AppendTensorInfo("a", {1}, 0, 32);
  twice.AppendData(64);
  EXPECT_THAT(Refusal(twice), HasSubstr("\"a\" occurs twice"));
}

TEST(Parse, Ranks) {
  EXPECT_THAT(Refusal(OneTensor({}, 0, 0, 64)), HasSubstr("0 dimensions"));
  EXPECT_EQ(Refusal(OneTensor({1, 1, 1, 1}, 0, 0, 64)), "");
  EXPECT_THAT(Refusal(OneTensor({1, 1, 1, 1, 1}, 0, 0, 64)),
              HasSubstr("5 dimensions"));
}

TEST(Parse, ZeroExtents) {
  for (int zero_at = 0; zero_at < 4; ++zero_at) {
    std::vector<uint64_t> ne(4, 1);
    ne[static_cast<size_t>(zero_at)] = 0;
    EXPECT_THAT(Refusal(OneTensor(ne, 0, 0, 64)), HasSubstr("extent of 0"));
  }
}

TEST(Parse, TypesThatDoNotExist) {
  for (uint32_t id :
       {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u, 99u, 0x80000000u, 0xffffffffu}) {
    EXPECT_EQ(CodeOf(OneTensor({256}, id, 0, 4096)), ErrorCode::kUnsupported);
    EXPECT_THAT(Refusal(OneTensor({256}, id, 0, 4096)),
                HasSubstr(fmt::format("number {},", id)));
  }
}

TEST(Parse, TypesWithoutKernelsAreListed) {
  EXPECT_EQ(Refusal(OneTensor({256}, 10 /* Q2_K */, 0, 84)), "");
}

TEST(Parse, RowsMustBeWholeBlocks) {
  EXPECT_EQ(Refusal(OneTensor({64}, 8, 0, 68)), "");
  EXPECT_THAT(Refusal(OneTensor({33}, 8, 0, 68)), HasSubstr("blocks of 32"));
  EXPECT_THAT(Refusal(OneTensor({32, 8}, 12, 0, 4096)),
              HasSubstr("blocks of 256"));
}

TEST(Parse, SizesThatOverflow) {
  EXPECT_THAT(Refusal(OneTensor({kHuge, 4}, 0, 0, 64)), HasSubstr("too large"));
  EXPECT_THAT(Refusal(OneTensor({kHuge, 2}, 0, 0, 64)), HasSubstr("too large"));
  EXPECT_THAT(
      Refusal(OneTensor({1 << 20, 1 << 20, 1 << 20, 1 << 20}, 0, 0, 64)),
      HasSubstr("too large"));
  // The elements fit 63 bits, their bytes do not fit 64.
  EXPECT_THAT(Refusal(OneTensor({kHuge}, 0, 0, 64)), HasSubstr("too large"));
  // The bytes fit, the end does not.
  EXPECT_THAT(Refusal(OneTensor({kHuge - 1}, 0, ~uint64_t{31}, 64)),
              HasSubstr("truncated"));
}

TEST(Parse, TensorsStayInsideTheData) {
  EXPECT_EQ(Refusal(OneTensor({16}, 0, 32, 96)), "");
  EXPECT_THAT(Refusal(OneTensor({17}, 0, 32, 96)), HasSubstr("truncated"));
  EXPECT_THAT(Refusal(OneTensor({16}, 0, 64, 96)), HasSubstr("truncated"));
  EXPECT_THAT(Refusal(OneTensor({16}, 0, 1 << 20, 96)), HasSubstr("truncated"));
  EXPECT_THAT(Refusal(OneTensor({16}, 0, 0, 0)), HasSubstr("truncated"));
  for (uint64_t offset : {uint64_t{1} << 31, uint64_t{1} << 32,
                          uint64_t{1} << 63, ~uint64_t{31}}) {
    EXPECT_THAT(Refusal(OneTensor({16}, 0, offset, 96)),
                HasSubstr("truncated"));
  }
}

TEST(Parse, OffsetsAreAligned) {
  EXPECT_THAT(Refusal(OneTensor({4}, 0, 16, 96)),
              HasSubstr("multiple of the alignment 32"));
}

TEST(Parse, GapsAreAllowedOverlapIsNot) {
  TestFile gap;
  gap.AppendTensorInfo("late", {8}, 0, 128).AppendTensorInfo("b", {8}, 0, 0);
  gap.AppendData(160);
  EXPECT_EQ(Refusal(gap), "");
  TestFile overlap;
  overlap.AppendTensorInfo("first", {16}, 0, 0)
      .AppendTensorInfo("second", {8}, 0, 32)
      .AppendData(96);
  EXPECT_EQ(CodeOf(overlap), ErrorCode::kCorrupt);
  EXPECT_THAT(Refusal(overlap), HasSubstr("\"first\" and \"second\" overlap"));
  TestFile same;
  same.AppendTensorInfo("p", {8}, 0, 0).AppendTensorInfo("q", {8}, 0, 0);
  same.AppendData(96);
  EXPECT_THAT(Refusal(same), HasSubstr("overlap"));
}

TEST(Parse, AlignmentIsHonoured) {
  TestFile file;
  file.alignment = 4096;
  file.SetU32("general.alignment", 4096);
  file.SetTensor("a", DType::kF32, {1}, Raw(1.0f));
  file.SetTensor("b", DType::kF32, {1}, Raw(2.0f));
  const std::string bytes = file.Bytes();
  const ParsedCopy parsed(bytes);
  ASSERT_TRUE(parsed.file) << parsed.file.error().message;
  const TensorInfo* b = (*parsed.file)->FindTensor("b");
  EXPECT_EQ(b->data - parsed.copy.get(), 8192);
  EXPECT_EQ(std::memcmp(b->data, Raw(2.0f).data(), 4), 0);
  // The same offsets do not fit a larger alignment.
  file.SetU32("general.alignment", 8192);
  EXPECT_NE(Refusal(file), "");
}

TEST(Parse, AlignmentsThatCannotBe) {
  for (uint32_t alignment :
       {0u, 3u, 48u, 33554432u, 0x80000000u, 0xffffffffu}) {
    EXPECT_THAT(Refusal(TestFile().SetU32("general.alignment", alignment)),
                HasSubstr("power of two"))
        << alignment;
  }
  EXPECT_THAT(Refusal(TestFile().Set("general.alignment", ValueType::kU64,
                                     Raw(uint64_t{32}))),
              HasSubstr("must be u32"));
  EXPECT_THAT(Refusal(TestFile().SetText("general.alignment", "32")),
              HasSubstr("must be u32"));
}

TEST(ParseLongDraws, AMillionTinyKeysAndTensors) {
  // Would take hours if looking for duplicates were quadratic.
  TestFile file;
  for (int i = 0; i < 1000000; ++i) {
    file.Append(fmt::format("{:x}", i), ValueType::kU8, "x");
  }
  const ParsedCopy parsed(file.Bytes());
  ASSERT_TRUE(parsed.file) << parsed.file.error().message;
  EXPECT_NE((*parsed.file)->Find("f423f"), nullptr);

  TestFile tensors;
  for (uint64_t i = 0; i < 100000; ++i) {
    tensors.AppendTensorInfo(fmt::format("{:x}", i), {1}, 24, i * 32);
  }
  tensors.AppendData(3200000);
  EXPECT_EQ(Refusal(std::move(tensors)), "");
}

TEST(TensorBytes, CountsBlocks) {
  EXPECT_EQ(TensorBytes(InfoOf(DType::kF16), {{3, 5, 1, 1}, 2}).value(), 30u);
  EXPECT_EQ(TensorBytes(InfoOf(DType::kQ6_K), {{512, 3, 1, 1}, 2}).value(),
            6u * 210);
  EXPECT_FALSE(TensorBytes(InfoOf(DType::kF32), Shape{}));
}

}  // namespace
}  // namespace thermocline::gguf

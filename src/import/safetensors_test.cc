#include "import/safetensors.h"

#include <gtest/gtest.h>

#include "import/hf_test_folder.h"

namespace thermocline::importer {
namespace {

Result<std::vector<SafeTensor>> ParseTensors(const std::string& bytes) {
  return ParseSafetensors(std::as_bytes(std::span(bytes)), "w.safetensors");
}

void ExpectBadSafetensors(const std::string& header, const std::string& data,
                          ErrorCode code, const std::string& part) {
  const auto tensors = ParseTensors(SafetensorsBytes(header, data));
  ASSERT_FALSE(tensors.has_value()) << header;
  EXPECT_EQ(tensors.error().code, code);
  EXPECT_NE(tensors.error().message.find("w.safetensors"), std::string::npos);
  EXPECT_NE(tensors.error().message.find(part), std::string::npos)
      << tensors.error().message;
}

void ExpectCorrupt(const std::string& header, const std::string& data,
                   const std::string& part) {
  ExpectBadSafetensors(header, data, ErrorCode::kCorrupt, part);
}

TEST(SafetensorsTest, HandMadeFile) {
  const std::string bytes = SafetensorsBytes(
      R"({"b":{"dtype":"F16","shape":[2,1],"data_offsets":[4,8]},)"
      R"("__metadata__":{"format":"pt"},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
      R"("z":{"dtype":"I64","shape":[0,5],"data_offsets":[8,8]}}  )",
      "AAAABBBB");
  const auto tensors = ParseTensors(bytes);
  ASSERT_TRUE(tensors.has_value()) << tensors.error().message;
  ASSERT_EQ(tensors->size(), 3u);
  const SafeTensor& a = (*tensors)[0];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.dtype, DType::kF32);
  EXPECT_TRUE(a.shape.empty());
  EXPECT_EQ(a.bytes.size(), 4u);
  EXPECT_EQ(static_cast<char>(a.bytes[0]), 'A');
  const SafeTensor& b = (*tensors)[1];
  EXPECT_EQ(b.shape, (std::vector<uint64_t>{2, 1}));
  EXPECT_EQ(static_cast<char>(b.bytes[3]), 'B');
  EXPECT_EQ((*tensors)[2].dtype, std::nullopt);
  EXPECT_EQ((*tensors)[2].dtype_name, "I64");
}

TEST(SafetensorsTest, EveryPrefixIsAnError) {
  Random random(3);
  const std::string whole =
      ToSafetensors({{"x", RandomTensor("F32", {3, 2}, random)},
                     {"y", RandomTensor("BF16", {5}, random)}});
  ASSERT_TRUE(ParseTensors(whole).has_value());
  for (size_t size = 0; size < whole.size(); ++size) {
    // A copy of its own, so that the sanitizer sees its end.
    const auto tensors = ParseTensors(std::string(whole, 0, size));
    ASSERT_FALSE(tensors.has_value()) << size;
    EXPECT_EQ(tensors.error().code, ErrorCode::kCorrupt);
  }
}

// No flipped byte may lead outside of the file.
TEST(SafetensorsTest, EveryFlippedByteIsSafe) {
  Random random(4);
  const std::string whole =
      ToSafetensors({{"x", RandomTensor("F32", {3, 2}, random)},
                     {"y", RandomTensor("F16", {5}, random)}});
  for (size_t at = 0; at < whole.size(); ++at) {
    for (int round = 0; round < 4; ++round) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(random.Next());
      const auto tensors = ParseTensors(damaged);
      if (!tensors) continue;
      for (const SafeTensor& tensor : *tensors) {
        const auto* begin = reinterpret_cast<const char*>(tensor.bytes.data());
        EXPECT_GE(begin, damaged.data());
        EXPECT_LE(begin + tensor.bytes.size(), damaged.data() + damaged.size());
      }
    }
  }
}

TEST(SafetensorsTest, LyingOffsets) {
  const auto header = [](const std::string& offsets) {
    return R"({"x":{"dtype":"F32","shape":[2],"data_offsets":)" + offsets +
           "}}";
  };
  const std::string data(8, 'd');
  ASSERT_TRUE(
      ParseTensors(SafetensorsBytes(header("[0,8]"), data)).has_value());
  for (const char* offsets :
       {"[0,12]", "[8,0]", "[4,12]", "[0,18446744073709551615]",
        "[18446744073709551608,18446744073709551615]", "[-8,0]", "[0]", "[]",
        "[0,8,8]", "[0.0,8.0]", "\"0,8\"", "null", "[0,4]"}) {
    ExpectCorrupt(header(offsets), data, "data_offsets");
  }
}

TEST(SafetensorsTest, LyingShapes) {
  const auto header = [](const std::string& shape) {
    return R"({"x":{"dtype":"F16","data_offsets":[0,8],"shape":)" + shape +
           "}}";
  };
  const std::string data(8, 'd');
  ASSERT_TRUE(
      ParseTensors(SafetensorsBytes(header("[2,2]"), data)).has_value());
  for (const char* shape :
       {"[3]", "[4,0]", "[]", "[4611686018427387904,4]",
        "[4294967296,4294967296,4294967296]", "[9223372036854775807,2]"}) {
    ExpectCorrupt(header(shape), data, "fit the shape");
  }
  for (const char* shape :
       {"[-4]", "[4.0]", "{}", "null", "[18446744073709551615]",
        "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,4]"}) {
    ExpectCorrupt(header(shape), data, "shape");
  }
}

TEST(SafetensorsTest, GapsAndOverlaps) {
  const auto two = [](const std::string& first, const std::string& second) {
    return R"({"x":{"dtype":"U8","shape":[4],"data_offsets":)" + first +
           R"(},"y":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}";
  };
  ASSERT_TRUE(ParseTensors(
      SafetensorsBytes(two("[4,8]", "[0,4]"), std::string(8, 'd'))));
  ExpectCorrupt(two("[0,4]", "[0,4]"), "dddd", "overlaps");
  ExpectCorrupt(two("[0,4]", "[3,7]"), "ddddddd", "overlaps");
  ExpectCorrupt(two("[0,4]", "[5,9]"), "ddddddddd", "gap");
  ExpectCorrupt(two("[1,5]", "[5,9]"), "ddddddddd", "gap");
  ExpectCorrupt(two("[0,4]", "[4,8]"), "ddddddddd", "1 bytes belong");
}

TEST(SafetensorsTest, SenselessHeaders) {
  for (const char* header : {"", "[]", "7", "{", "{\"x\":1}", "{\"x\":{}}"}) {
    ExpectCorrupt(header, "", "w.safetensors");
  }
  ExpectBadSafetensors(
      R"({"x":{"dtype":"F4","shape":[0],"data_offsets":[0,0]}})", "",
      ErrorCode::kUnsupported, "\"F4\"");
  ExpectCorrupt(R"({"x":{"dtype":3,"shape":[0],"data_offsets":[0,0]}})", "",
                "dtype");
  ExpectCorrupt(R"({"x":{"dtype":"F16","shape":[0],"data_offsets":[0,0]},)"
                R"("x":{"dtype":"F16","shape":[0],"data_offsets":[0,0]}})",
                "", "twice");
  EXPECT_TRUE(ParseTensors(SafetensorsBytes("{}", "")).has_value());
}

TEST(SafetensorsTest, HeaderSizeIsLimited) {
  std::string bytes(16, '\xff');
  EXPECT_FALSE(ParseTensors(bytes).has_value());
  const uint64_t size = kMaxHeaderBytes + 1;
  bytes = std::string(reinterpret_cast<const char*>(&size), 8) +
          std::string(size, ' ');
  EXPECT_FALSE(ParseTensors(bytes).has_value());
}

TEST(SafetensorsFileTest, OpensAndOutlivesMoves) {
  const os::TestFolder folder;
  Random random(5);
  const TestTensor tensor = RandomTensor("F32", {4}, random);
  const std::string path =
      folder.Write("w.safetensors", ToSafetensors({{"t", tensor}}));
  SafetensorsFile file = SafetensorsFile::Open(path).value();
  const SafetensorsFile moved = std::move(file);
  ASSERT_EQ(moved.tensors().size(), 1u);
  EXPECT_EQ(
      std::memcmp(moved.tensors()[0].bytes.data(), tensor.values.data(), 16),
      0);
  EXPECT_EQ(moved.path(), path);
  EXPECT_EQ(SafetensorsFile::Open(folder / "none").error().code,
            ErrorCode::kNotFound);
}

}  // namespace
}  // namespace thermocline::importer

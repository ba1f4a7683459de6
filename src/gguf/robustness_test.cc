// Files damaged in every way that can be enumerated: each is refused or reads
// within its bytes. The sanitizer builds turn a slip into a failure.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gguf/test_file.h"

namespace thermocline::gguf {
namespace {

TestFile SmallFile() {
  TestFile file;
  file.SetText("general.architecture", "llama")
      .SetU32("general.alignment", 32)
      .SetF32("f", 0.5f)
      .SetBool("b", true)
      .Set("u64", ValueType::kU64, Raw(uint64_t{9}))
      .SetTexts("texts", {"one", "", "three"})
      .SetNumbers<float>("floats", ValueType::kF32, {1, 2, 3})
      .SetNumbers<int8_t>("bytes", ValueType::kI8, {1, 2, 3, 4, 5, 6, 7, 8})
      .SetTensor("a", DType::kF32, {8, 2})
      .SetTensor("q", DType::kQ4_0, {32, 2})
      .SetTensor("last", DType::kF16, {16, 3});
  return file;
}

// Reads everything that a File offers.
uint64_t TouchAll(const File& file) {
  uint64_t sum = file.num_file_bytes();
  for (const KeyValue& kv : file.metadata()) {
    sum += kv.key.size() + (file.Find(kv.key) != nullptr);
    if (const auto* array = std::get_if<Array>(&kv.value)) sum += array->size();
  }
  for (const TensorInfo& info : file.tensors()) {
    const TensorView view = file.Tensor(info.name);
    EXPECT_EQ(view.num_bytes(), info.num_bytes);
    EXPECT_EQ(info.shard_idx, 0u);
    EXPECT_LE(info.offset + info.num_bytes, file.num_file_bytes());
    for (size_t i = 0; i < view.num_bytes(); ++i) {
      sum += static_cast<uint64_t>(view.data[i]);
    }
  }
  return sum;
}

TEST(Robustness, TruncationAtEveryByte) {
  const std::string bytes = SmallFile().Bytes();
  ASSERT_TRUE(ParsedCopy(bytes).file);
  // The last tensor fills its padding, so no byte can be missed.
  for (size_t length = 0; length < bytes.size(); ++length) {
    const ParsedCopy parsed(std::string_view(bytes).substr(0, length));
    ASSERT_FALSE(parsed.file) << "cut at " << length;
    ASSERT_EQ(parsed.file.error().code, ErrorCode::kCorrupt)
        << parsed.file.error().message;
    ASSERT_TRUE(parsed.file.error().message.starts_with("test.gguf: "));
  }
}

TEST(Robustness, EveryCountFieldWithEveryBadValue) {
  TestFile file = SmallFile();
  const std::string bytes = file.Bytes();
  ASSERT_GT(file.fields().size(), 40u);
  for (const CountField& field : file.fields()) {
    for (uint64_t value :
         {uint64_t{0}, uint64_t{1}, (uint64_t{1} << 31) - 1, uint64_t{1} << 31,
          (uint64_t{1} << 31) + 1, uint64_t{1} << 32, uint64_t{1} << 63,
          ~uint64_t{0}}) {
      std::string patched = bytes;
      std::memcpy(patched.data() + field.position, &value, field.num_bytes);
      const ParsedCopy parsed(patched);
      SCOPED_TRACE(field.what + " = " + std::to_string(value));
      if (parsed.file) TouchAll(**parsed.file);
      // Nothing that large fits into the file, whatever the field means; a
      // four-byte field is cut to its low half, and 'first element' is data.
      const bool is_data = field.what.starts_with("first element");
      if (value == ~uint64_t{0} && !is_data) EXPECT_FALSE(parsed.file);
    }
  }
}

TEST(Robustness, EverySingleByte) {
  const std::string bytes = SmallFile().Bytes();
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (unsigned char value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      std::string patched = bytes;
      patched[i] = static_cast<char>(value);
      const ParsedCopy parsed(patched);
      if (parsed.file) TouchAll(**parsed.file);
    }
  }
}

}  // namespace
}  // namespace thermocline::gguf

// Model files damaged in every way that can be enumerated, and vocabularies
// with odd content: each is refused or opens; the sanitizer builds turn a slip
// into a failure.

#include <gtest/gtest.h>

#include "model/model.h"
#include "model/test_log.h"
#include "model/test_model.h"

namespace thermocline::model {
namespace {

using gguf::CountField;
using gguf::ParsedCopy;
using gguf::TestFile;

// Whether the bytes open as a model.
bool Opens(const std::string& bytes) {
  ParsedCopy parsed(bytes);
  if (!parsed.file) return false;
  OpenOptions options;
  options.check_tensors = true;
  const auto model = Model::FromFile(std::move(*parsed.file), options);
  if (!model) EXPECT_TRUE(model.error().message.starts_with("test.gguf: "));
  return model.has_value();
}

TEST(ModelRobustness, EveryCountFieldWithEveryBadValue) {
  TestLog log;
  TestFile file = TestModel("qwen2");
  const std::string bytes = file.Bytes();
  ASSERT_TRUE(Opens(bytes));
  for (const CountField& field : file.fields()) {
    for (uint64_t value :
         {uint64_t{0}, uint64_t{1}, (uint64_t{1} << 31) - 1, uint64_t{1} << 31,
          (uint64_t{1} << 31) + 1, uint64_t{1} << 32, uint64_t{1} << 63,
          ~uint64_t{0}}) {
      std::string patched = bytes;
      std::memcpy(patched.data() + field.position, &value, field.num_bytes);
      SCOPED_TRACE(field.what + " = " + std::to_string(value));
      Opens(patched);
    }
  }
}

TEST(ModelRobustness, EveryByteOfTheMetadata) {
  TestLog log;
  TestFile file = TestModel();
  const std::string bytes = file.Bytes();
  const size_t num_metadata_bytes =
      file.fields().back().position + file.fields().back().num_bytes;
  for (size_t i = 0; i < num_metadata_bytes; ++i) {
    for (unsigned char value : {0x00, 0x01, 0xff}) {
      std::string patched = bytes;
      patched[i] = static_cast<char>(value);
      Opens(patched);
    }
  }
}

TEST(ModelLongDraws, OddTokens) {
  TestLog log;
  const std::vector<std::vector<std::string>> vocabularies = {
      {"", "", "", "", "", ""},
      {"a", "a", "a", "a", "a", "a"},
      {"\xff", "\xc3", "\xe2\x96", std::string("a\0b", 3), "\n", " "},
      {"<0x-1>", "<0x>", "<0xGG>", "<0x100>", "<0x00>", "<0xFF"},
      {std::string(1 << 20, 'a'), "<s>", "</s>", "a", "b", "ab"},
  };
  for (const auto& tokens : vocabularies) {
    for (int32_t type = 1; type <= 6; ++type) {
      TestFile file = TestModel();
      file.SetTexts("tokenizer.ggml.tokens", tokens);
      file.SetNumbers<int32_t>("tokenizer.ggml.token_type",
                               gguf::ValueType::kI32,
                               std::vector<int32_t>(6, type));
      Opens(file.Bytes());
    }
  }
}

TEST(ModelRobustness, OddMerges) {
  TestLog log;
  for (const char* merge :
       {"", " ", "ab", "a b c", " a", "a ", "x y", "\xff b", "a  b"}) {
    TestFile file = TestModel();
    file.SetText("tokenizer.ggml.model", "gpt2")
        .SetText("tokenizer.ggml.pre", "gpt-2")
        .SetTexts("tokenizer.ggml.merges", {merge, "a b", "a b"});
    Opens(file.Bytes());
  }
}

}  // namespace
}  // namespace thermocline::model

#include "import/hf_tiktoken.h"

#include <gtest/gtest.h>

namespace thermocline::importer {
namespace {

std::string Base64(std::string_view bytes) {
  constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    for (size_t k = 0; k < 3; ++k) {
      const auto byte =
          k < count ? static_cast<unsigned char>(bytes[i + k]) : 0u;
      group = group << 8 | byte;
    }
    for (size_t k = 0; k < 4; ++k) {
      text += k <= count ? kDigits[group >> (18 - 6 * k) & 63] : '=';
    }
  }
  return text;
}

// All bytes and one merge: 257 tokens.
NamedText Table() {
  NamedText table = {"tokenizer.model", ""};
  for (int byte = 0; byte < 256; ++byte) {
    table.text += Base64(std::string(1, static_cast<char>(byte))) + " " +
                  std::to_string(byte) + "\n";
  }
  table.text += Base64("ab") + " 256\n";
  return table;
}

TEST(HfTiktokenTest, Llama3) {
  const auto draft = DraftOfTiktoken(Table(), "llama", 520);
  ASSERT_TRUE(draft.has_value()) << draft.error().message;
  EXPECT_EQ(draft->vocab.kind, text::VocabKind::kBpe);
  EXPECT_EQ(draft->vocab.pre, "llama-bpe");
  EXPECT_EQ(draft->vocab.merges, std::vector<std::string>{"a b"});
  EXPECT_TRUE(draft->vocab.add_bos);
  EXPECT_EQ(draft->vocab.bos, 257);
  EXPECT_EQ(draft->vocab.eos, 258);
  EXPECT_EQ(draft->vocab.eom, 265);
  EXPECT_EQ(draft->vocab.eot, 266);
  EXPECT_EQ(draft->tokens.TypeOf(257), text::TokenType::kControl);
  EXPECT_EQ(draft->tokens.Find("<|reserved_special_token_247|>"), 512);
  EXPECT_EQ(draft->tokens.Find("<|reserved_special_token_248|>"), std::nullopt);
}

TEST(HfTiktokenTest, Qwen2) {
  const auto draft = DraftOfTiktoken(Table(), "qwen2", 260);
  ASSERT_TRUE(draft.has_value()) << draft.error().message;
  EXPECT_EQ(draft->vocab.pre, "qwen2");
  EXPECT_FALSE(draft->vocab.add_bos);
  EXPECT_EQ(draft->vocab.eos, 257);
  EXPECT_EQ(draft->vocab.eot, 259);
}

TEST(HfTiktokenTest, Errors) {
  const auto expect_bad = [](const NamedText& table, const char* architecture,
                             uint64_t num_rows, ErrorCode code,
                             const std::string& part) {
    const auto draft = DraftOfTiktoken(table, architecture, num_rows);
    ASSERT_FALSE(draft.has_value()) << part;
    EXPECT_EQ(draft.error().code, code);
    EXPECT_NE(draft.error().message.find("tokenizer.model"), std::string::npos);
    EXPECT_NE(draft.error().message.find(part), std::string::npos)
        << draft.error().message;
  };
  expect_bad(Table(), "falcon", 520, ErrorCode::kUnsupported, "\"falcon\"");
  expect_bad(Table(), "llama", 512, ErrorCode::kCorrupt, "513 tokens");
  expect_bad(Table(), "llama", 512, ErrorCode::kCorrupt, "512 rows");
  expect_bad({"tokenizer.model", "x"}, "qwen2", 260, ErrorCode::kCorrupt,
             "line 1");
  expect_bad({"tokenizer.model", ""}, "qwen2", 260, ErrorCode::kCorrupt,
             "byte 0");
}

// Cut off before the end of the last byte's line it lacks something.
TEST(HfTiktokenTest, EveryTruncation) {
  const NamedText table = Table();
  for (size_t size = 0; size < table.text.size() - 10; ++size) {
    EXPECT_FALSE(
        DraftOfTiktoken({"t", table.text.substr(0, size)}, "qwen2", 260)
            .has_value())
        << size;
  }
}

}  // namespace
}  // namespace thermocline::importer

#include "text/char_pieces.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "text/small_vocabs.h"

namespace thermocline::text {
namespace {

using Ids = std::vector<TokenId>;

TEST(CharPiecesTest, SpacesAreEscaped) {
  std::string escaped = "x";
  AppendEscaped(" a  b\n", &escaped);
  EXPECT_EQ(escaped, "x▁a▁▁b\n");
}

TEST(CharPiecesTest, InnerSpaces) {
  for (const auto& [text, expected] :
       std::initializer_list<std::pair<std::string_view, size_t>>{
           {"", std::string_view::npos},
           {"ab", std::string_view::npos},
           {"▁▁ab", std::string_view::npos},
           {"▁", std::string_view::npos},
           {"a▁", 1},
           {"▁a▁▁b", 4}}) {
    EXPECT_EQ(FindInnerSpace(text), expected) << text;
  }
}

TEST(CharPiecesTest, WordsOfTexts) {
  for (const auto& [text, expected] :
       std::initializer_list<std::pair<std::string_view, size_t>>{
           {"", 0},
           {"ab", 2},
           {"  ", 2},
           {"  ab cd", 4},
           {" \u2581 a\u2581b", 6},
           {"a\n b", 2},
           {"\u2582 a", 3}}) {
    EXPECT_EQ(WordLength(text), expected) << text;
    std::string escaped;
    AppendEscaped(text.substr(0, WordLength(text)), &escaped);
    EXPECT_EQ(FindInnerSpace(escaped), std::string_view::npos) << text;
  }
}

TEST(CharPiecesTest, BytesOfPieces) {
  const Vocab vocab = SmallCharBpeVocab();
  EXPECT_EQ(CharPieceBytes(vocab, 3), std::string(1, '\0'));
  EXPECT_EQ(CharPieceBytes(vocab, 3 + 0xE2), "\xE2");
  EXPECT_EQ(CharPieceBytes(vocab, 260), " ");
}

TEST(CharPiecesTest, BytesWithoutTokensAreUnknownOrLeftOut) {
  Vocab vocab = SmallCharBpeVocab();
  for (const std::optional<TokenId> unknown :
       {std::optional<TokenId>(), std::optional<TokenId>(0)}) {
    ByteTokens bytes;
    ASSERT_TRUE(bytes.Read(vocab, unknown));
    Ids ids;
    bytes.Append("\xE2\x82", &ids);
    EXPECT_EQ(ids, (Ids{3 + 0xE2, 3 + 0x82}));
  }
  vocab.types[3 + 0x82] = TokenType::kNormal;
  ByteTokens bytes;
  ASSERT_TRUE(bytes.Read(vocab, 0));
  Ids ids;
  bytes.Append("\xE2\x82", &ids);
  EXPECT_EQ(ids, Ids{0});
  ASSERT_TRUE(bytes.Read(vocab, std::nullopt));
  bytes.Append("\xE2\x82", &ids);
  EXPECT_EQ(ids, Ids{0});
}

TEST(CharPiecesTest, MalformedByteToken) {
  Vocab vocab = SmallCharBpeVocab();
  vocab.tokens[4] = "<0x1>";
  const Status read = ByteTokens().Read(vocab, 0);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(read.error().message.find("token 4 "), std::string::npos);
}

}  // namespace
}  // namespace thermocline::text

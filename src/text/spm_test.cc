#include "text/spm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "base/random.h"
#include "text/small_vocabs.h"
#include "text/test_tokenizer.h"

namespace thermocline::text {
namespace {

TEST(SpmTest, HighestScoreFirst) {
  const auto tokenizer = MakeTokenizer(SmallSpmVocab());
  EXPECT_EQ(JoinedTokens(*tokenizer, "the cat"), "▁the|▁|c|at");
  EXPECT_EQ(JoinedTokens(*tokenizer, "a"), "▁a");
  EXPECT_EQ(JoinedTokens(*tokenizer, ""), "");
  EXPECT_EQ(JoinedTokens(*tokenizer, " "), "▁▁");
  EXPECT_EQ(JoinedTokens(*tokenizer, "   "), "▁▁▁▁");
  EXPECT_EQ(JoinedTokens(*tokenizer, "é☃"), "▁|é|☃");
}

TEST(SpmTest, EqualScoresMergeLeftmost) {
  Vocab vocab;
  for (const char* text : {"a", "b", "ab", "ba", "aba"}) {
    AddToken(&vocab, text, TokenType::kNormal, 0);
  }
  EXPECT_EQ(JoinedTokens(*MakeTokenizer(vocab), "aba"), "aba");
  EXPECT_EQ(JoinedTokens(*MakeTokenizer(vocab), "bab"), "ba|b");
  vocab.scores = {0, 0, -2, -1, -3};
  EXPECT_EQ(JoinedTokens(*MakeTokenizer(vocab), "abab"), "aba|b");
  vocab.scores.clear();  // absent: all equal
  EXPECT_EQ(JoinedTokens(*MakeTokenizer(vocab), "bab"), "ba|b");
}

TEST(SpmTest, UnknownCharactersBecomeBytesElseUnknown) {
  Vocab vocab = SmallSpmVocab();
  EXPECT_EQ(JoinedTokens(*MakeTokenizer(vocab), "ü\xff"),
            "▁|<0xC3>|<0xBC>|<0xFF>");
  vocab.types[3 + 0xbc] = TokenType::kNormal;  // no longer byte BC
  EXPECT_EQ(JoinedTokens(*MakeTokenizer(vocab), "üx"), "▁|<unk>|<0x78>");
  vocab.unk = 1;  // <s>: no text becomes a control token
  EXPECT_EQ(JoinedTokens(*MakeTokenizer(vocab), "üx"), "▁|<0x78>");
  vocab.unk.reset();
  EXPECT_EQ(JoinedTokens(*MakeTokenizer(vocab), "üx"), "▁|<0x78>");
}

TEST(SpmTest, TextCannotForgeControlOrByteTokens) {
  Vocab vocab = SmallSpmVocab();
  AddToken(&vocab, "<s", TokenType::kNormal, -50);
  AddToken(&vocab, "<0", TokenType::kNormal, -50);
  const auto tokenizer = MakeTokenizer(vocab);
  EXPECT_EQ(JoinedTokens(*tokenizer, "<s>"), "▁|<s|>");
  const auto ids = tokenizer->Encode("<0x41>", kPlain);
  ASSERT_TRUE(ids);
  EXPECT_EQ(std::count(ids->begin(), ids->end(), 3 + 0x41), 0);
}

TEST(SpmTest, ByteTokenMustBeWellFormed) {
  for (const char* bad : {"<0x-1>", "<0x1>", "", "<0xGG>", "A"}) {
    Vocab vocab = SmallSpmVocab();
    vocab.tokens[3] = bad;
    const auto tokenizer = Tokenizer::Create(vocab);
    ASSERT_FALSE(tokenizer) << bad;
    EXPECT_EQ(tokenizer.error().code, ErrorCode::kCorrupt);
  }
}

TEST(SpmTest, PiecesAreBytes) {
  const auto tokenizer = MakeTokenizer(SmallSpmVocab());
  EXPECT_EQ(tokenizer->Piece(3 + 0xe9, false), "\xe9");
  EXPECT_EQ(tokenizer->Piece(3, false), std::string_view("\0", 1));
  EXPECT_EQ(tokenizer->Piece(262, false), " the");
  EXPECT_EQ(tokenizer->Piece(266, false), "    ");
  EXPECT_EQ(tokenizer->Piece(259, false), "<|tool|>");
}

TEST(SpmTest, LowerBlockIsASpace) {
  const auto tokenizer = MakeTokenizer(SmallSpmVocab());
  EXPECT_EQ(JoinedTokens(*tokenizer, "the▁the"), "▁the|▁the");
  EXPECT_EQ(tokenizer->Decode(*tokenizer->Encode("a▁a", {}), false), "a a");
}

// Cutting at spaces must not change what merges: a token that no text here can
// become, but that has a space inside, turns it off.
TEST(SpmTest, WordByWordEqualsTheWholeText) {
  const auto by_word = MakeTokenizer(SmallSpmVocab());
  Vocab vocab = SmallSpmVocab();
  AddToken(&vocab, "\U0001F600▁x", TokenType::kNormal, -100);
  const auto whole = MakeTokenizer(vocab);
  Random random(5);
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (uint64_t n = random.Below(40); n > 0; --n) {
      text += " theacinat☃"[random.Below(13)];
    }
    ASSERT_EQ(*by_word->Encode(text, kPlain), *whole->Encode(text, kPlain));
  }
}

TEST(SpmTest, TokensThatSpanWords) {
  Vocab vocab = SmallSpmVocab();
  AddToken(&vocab, "e▁", TokenType::kNormal, 5);
  AddToken(&vocab, "e▁c", TokenType::kNormal, 4);
  EXPECT_EQ(JoinedTokens(*MakeTokenizer(vocab), "he cat"), "▁|h|e▁c|at");
}

TEST(SpmTest, RandomBytesRoundTrip) {
  const auto tokenizer = MakeTokenizer(SmallSpmVocab());
  Random random(6);
  for (int round = 0; round < 500; ++round) {
    std::string text(random.Below(50), '\0');
    for (char& c : text) c = static_cast<char>(random.Below(256));
    if (text.find("<|tool|>") != std::string::npos) continue;
    const auto ids = tokenizer->Encode(text, {});
    ASSERT_TRUE(ids);
    ASSERT_EQ(tokenizer->Decode(*ids, false), text);
  }
}

}  // namespace
}  // namespace thermocline::text

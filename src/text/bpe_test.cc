#include "text/bpe.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "text/small_vocabs.h"
#include "text/test_tokenizer.h"

namespace thermocline::text {
namespace {

TEST(BpeTest, MergesWithinWordsByRank) {
  const auto tokenizer = MakeTokenizer(SmallBpeVocab());
  EXPECT_EQ(JoinedTokens(*tokenizer, "the the"), "t|he|Ġthe");
  EXPECT_EQ(JoinedTokens(*tokenizer, " aaaaa"), "Ġa|aaaa");
  EXPECT_EQ(JoinedTokens(*tokenizer, "12 \n"), "12|Ġ|Ċ");
  EXPECT_EQ(JoinedTokens(*tokenizer, "é\xff"), "Ã©|ÿ");
  EXPECT_EQ(JoinedTokens(*tokenizer, ""), "");
}

TEST(BpeTest, MergeNeedsTwoSides) {
  for (const char* bad : {"", " ", "ab", "a ", " b"}) {
    Vocab vocab = SmallBpeVocab();
    vocab.merges[1] = bad;
    const auto tokenizer = Tokenizer::Create(vocab);
    ASSERT_FALSE(tokenizer) << bad;
    EXPECT_EQ(tokenizer.error().code, ErrorCode::kCorrupt);
    EXPECT_NE(tokenizer.error().message.find("merge 1 "), std::string::npos);
  }
}

TEST(BpeTest, MergesThatNameNoToken) {
  Vocab vocab = SmallBpeVocab();
  // "xy" is no token, but leads to one; "xyq" leads nowhere; the last is noise.
  for (const char* merge : {"x y", "xy z", "xy q", "\xff\xff w"}) {
    vocab.merges.emplace_back(merge);
  }
  AddToken(&vocab, "xyz", TokenType::kNormal);
  const auto tokenizer = MakeTokenizer(vocab);
  EXPECT_EQ(JoinedTokens(*tokenizer, "xyz"), "xyz");
  EXPECT_EQ(JoinedTokens(*tokenizer, "xyqxy"), "x|y|q|x|y");
}

TEST(BpeTest, BytesWithoutTokens) {
  Vocab vocab = SmallBpeVocab();
  vocab.tokens[1 + 'x'] = "";
  EXPECT_EQ(JoinedTokens(*MakeTokenizer(vocab), "axb"), "a|b");
  vocab.unk = 0;
  EXPECT_EQ(JoinedTokens(*MakeTokenizer(vocab), "axb"),
            "a|b");  // no control token
  AddToken(&vocab, "<unk>", TokenType::kUnknown);
  vocab.unk = static_cast<TokenId>(vocab.tokens.size() - 1);
  EXPECT_EQ(JoinedTokens(*MakeTokenizer(vocab), "axb"), "a|<unk>|b");
}

TEST(BpeTest, WholeWordsGoBeforeMergesOnlyWhereTheModelWantsIt) {
  for (const bool whole : {true, false}) {
    Vocab vocab = SmallBpeVocab(whole ? "llama-bpe" : "dbrx");
    AddToken(&vocab, "Ġcat", TokenType::kNormal);
    AddToken(&vocab, "Ġdog", TokenType::kControl);
    const auto tokenizer = MakeTokenizer(vocab);
    EXPECT_EQ(JoinedTokens(*tokenizer, " cat"), whole ? "Ġcat" : "Ġ|c|a|t");
    EXPECT_EQ(JoinedTokens(*tokenizer, " dog"), "Ġ|d|o|g");
    EXPECT_EQ(JoinedTokens(*tokenizer, " cats"), "Ġ|c|a|t|s");
  }
}

// More different words than are kept.
TEST(BpeTest, ManyWords) {
  const auto tokenizer = MakeTokenizer(SmallBpeVocab());
  std::string text;
  for (int i = 0; i < 70'000; ++i) {
    std::string word = " ";
    for (int rest = i + 26 * 26; rest > 0; rest /= 26) {
      word += static_cast<char>('a' + rest % 26);
    }
    text += word;
    if (i < 100 || i >= 69'900) text += word;
  }
  const auto ids = tokenizer->Encode(text, kPlain);
  ASSERT_TRUE(ids);
  EXPECT_EQ(tokenizer->Decode(*ids, false), text);
}

// A word that was there before gets its tokens again, whatever is between.
TEST(BpeTest, WordsThatComeAgain) {
  const auto tokenizer = MakeTokenizer(SmallBpeVocab());
  const std::string once = JoinedTokens(*tokenizer, " the");
  EXPECT_EQ(JoinedTokens(*tokenizer, " the cat the the"),
            once + "|Ġ|c|a|t|" + once + "|" + once);
  EXPECT_EQ(JoinedTokens(*tokenizer, " the<|tool|> the"),
            once + "|<|tool|>|" + once);
  const std::string longer(65, 'a');  // not kept
  const auto ids = tokenizer->Encode(longer + " " + longer, kPlain);
  ASSERT_TRUE(ids);
  EXPECT_EQ(tokenizer->Decode(*ids, false), longer + " " + longer);
  const auto parts = tokenizer->EncodeParts(
      std::vector<TextPart>{{" the", true}, {" the", false}}, {});
  ASSERT_TRUE(parts);
  EXPECT_EQ(*parts, *tokenizer->Encode(" the the", kPlain));
}

TEST(BpeTest, PiecesAreBytes) {
  const auto tokenizer = MakeTokenizer(SmallBpeVocab());
  EXPECT_EQ(tokenizer->Piece(1, false), std::string_view("\0", 1));
  EXPECT_EQ(tokenizer->Piece(1 + 0xff, false), "\xff");
  EXPECT_EQ(tokenizer->Piece(260, false), " the");
  EXPECT_EQ(tokenizer->Piece(0, false), "");
  EXPECT_EQ(tokenizer->Piece(0, true), "<|endoftext|>");
}

TEST(BpeTest, UnknownPreTokenizer) {
  const auto tokenizer = Tokenizer::Create(SmallBpeVocab("klingon"));
  ASSERT_FALSE(tokenizer);
  EXPECT_EQ(tokenizer.error().code, ErrorCode::kUnsupported);
}

TEST(BpeTest, RandomBytesRoundTrip) {
  Random random(7);
  for (const char* pre : {"gpt-2", "llama-bpe", "qwen2", "falcon", "starcoder",
                          "deepseek-llm", "deepseek-coder", "default"}) {
    const auto tokenizer = MakeTokenizer(SmallBpeVocab(pre));
    for (int round = 0; round < 100; ++round) {
      std::string text(random.Below(50), '\0');
      for (char& c : text) c = static_cast<char>(random.Below(256));
      const auto ids = tokenizer->Encode(text, kPlain);
      ASSERT_TRUE(ids);
      ASSERT_EQ(tokenizer->Decode(*ids, false), text);
    }
  }
}

}  // namespace
}  // namespace thermocline::text

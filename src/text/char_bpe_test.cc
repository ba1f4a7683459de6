#include "text/char_bpe.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "text/small_vocabs.h"
#include "text/test_tokenizer.h"

namespace thermocline::text {
namespace {

TEST(CharBpeTest, CharactersMergeByRank) {
  const auto tokenizer = MakeTokenizer(SmallCharBpeVocab());
  for (const auto& [text, tokens] :
       std::initializer_list<std::pair<const char*, const char*>>{
           {"the the", "t|he|▁the"},
           {"   the", "▁▁|▁the"},  // (▁t) goes before (▁▁)
           {"aaa", "aa|a"},
           {"é☃", "é|☃"},
           {"x", "<0x78>"},
           {"tĸhe", "t|<0xC4>|<0xB8>|he"},
           {"\xff", "<0xFF>"},
           {"\u2581the", "▁the"},
           {"<0x41>", "<|<0x30>|<0x78>|<0x34>|<0x31>|<0x3E>"},
           {"", ""}}) {
    EXPECT_EQ(JoinedTokens(*tokenizer, text), tokens) << text;
  }
}

TEST(CharBpeTest, RunsOfLineFeedsAreWholeTokensWhereThereAreSuch) {
  const auto tokenizer = MakeTokenizer(SmallCharBpeVocab());
  EXPECT_EQ(JoinedTokens(*tokenizer, "a\na"), "a|\n|a");
  EXPECT_EQ(JoinedTokens(*tokenizer, "a\n\n\na"), "a|\n\n\n|a");
  EXPECT_EQ(JoinedTokens(*tokenizer, "\n\n\n\n\n"), "\n\n|\n\n|\n");
}

TEST(CharBpeTest, NothingMergesAcrossTheEndOfALine) {
  Vocab vocab = SmallCharBpeVocab();
  vocab.merges.emplace_back("\n t");
  AddToken(&vocab, "\nt", TokenType::kNormal);
  EXPECT_EQ(JoinedTokens(*MakeTokenizer(vocab), "\nt"), "\n|t");
}

// With a merge that puts a space behind something else, whole lines merge.
TEST(CharBpeTest, SpacesMayBeInside) {
  Vocab vocab = SmallCharBpeVocab();
  EXPECT_EQ(JoinedTokens(*MakeTokenizer(vocab), "he he"), "he|▁|he");
  vocab.merges.emplace_back("he ▁");
  AddToken(&vocab, "he▁", TokenType::kNormal);
  EXPECT_EQ(JoinedTokens(*MakeTokenizer(vocab), "he he"), "he▁|he");
}

TEST(CharBpeTest, MergesThatEndInNoToken) {
  Vocab vocab = SmallCharBpeVocab();
  vocab.merges.emplace_back("x c");  // no token, nor is its left side
  EXPECT_EQ(JoinedTokens(*MakeTokenizer(vocab), "xc"), "<0x78>|c");
  vocab.merges.emplace_back("xc n");
  AddToken(&vocab, "xcn", TokenType::kNormal);
  EXPECT_EQ(JoinedTokens(*MakeTokenizer(vocab), "xcn"), "xcn");
}

TEST(CharBpeTest, ControlTokensAreNotForged) {
  const auto tokenizer = MakeTokenizer(SmallCharBpeVocab());
  EXPECT_EQ(tokenizer->Encode("<bos>a", {true, true})->size(), 3u);
  const auto ids = tokenizer->Encode("<bos><unk>", {false, false});
  for (const TokenId id : *ids) EXPECT_GT(id, 2);
}

TEST(CharBpeTest, BadVocabulariesAreRefused) {
  Vocab vocab = SmallCharBpeVocab();
  vocab.merges[1] = "ab";
  EXPECT_EQ(Tokenizer::Create(vocab).error().code, ErrorCode::kCorrupt);
  vocab = SmallCharBpeVocab();
  vocab.tokens[3] = "<0x0>";
  EXPECT_EQ(Tokenizer::Create(vocab).error().code, ErrorCode::kCorrupt);
}

// Words cut apart give what the whole line gives.
TEST(CharBpeTest, WordsAreIndependentOfEachOther) {
  Vocab vocab = SmallCharBpeVocab();
  const auto by_words = MakeTokenizer(vocab);
  vocab.merges.emplace_back("q ▁");  // q is not in the texts
  const auto by_lines = MakeTokenizer(vocab);
  Random random(3);
  for (int round = 0; round < 300; ++round) {
    std::string text(random.Below(30), ' ');
    for (char& c : text) c = "the a \n"[random.Below(7)];
    EXPECT_EQ(*by_words->Encode(text, {}), *by_lines->Encode(text, {})) << text;
  }
}

TEST(CharBpeTest, RandomBytesRoundTrip) {
  Random random(7);
  const auto tokenizer = MakeTokenizer(SmallCharBpeVocab());
  for (int round = 0; round < 200; ++round) {
    std::string text(random.Below(50), '\0');
    for (char& c : text) c = static_cast<char>(random.Below(256));
    const auto ids = tokenizer->Encode(text, {false, false});
    ASSERT_TRUE(ids);
    ASSERT_EQ(tokenizer->Decode(*ids, false), text);
  }
}

}  // namespace
}  // namespace thermocline::text

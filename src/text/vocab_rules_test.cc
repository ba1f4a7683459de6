#include "text/vocab_rules.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "text/small_vocabs.h"

namespace thermocline::text {
namespace {

Vocab Tokens(std::initializer_list<std::string> tokens) {
  Vocab vocab;
  vocab.tokens = tokens;
  return vocab;
}

void ExpectCorrupt(const Vocab& vocab) {
  const Status status = CheckVocab(vocab);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kCorrupt);
}

TEST(VocabRulesTest, ChecksSizesIdsAndScores) {
  EXPECT_TRUE(CheckVocab(SmallSpmVocab()));
  EXPECT_TRUE(CheckVocab(SmallBpeVocab()));
  EXPECT_TRUE(CheckVocab(Tokens({"a"})));
  ExpectCorrupt(Vocab());
  Vocab vocab = Tokens({"a", "b"});
  vocab.scores = {1};
  ExpectCorrupt(vocab);
  vocab.scores = {1, std::numeric_limits<float>::quiet_NaN()};
  ExpectCorrupt(vocab);
  vocab.scores = {1, -std::numeric_limits<float>::infinity()};
  EXPECT_TRUE(CheckVocab(vocab));
  vocab.types = {TokenType::kNormal, TokenType::kNormal, TokenType::kByte};
  ExpectCorrupt(vocab);
}

TEST(VocabRulesTest, ChecksEachSpecialId) {
  for (const auto member : {&Vocab::bos, &Vocab::eos, &Vocab::eot, &Vocab::eom,
                            &Vocab::unk, &Vocab::pad}) {
    Vocab vocab = Tokens({"a", "b"});
    vocab.*member = 1;
    EXPECT_TRUE(CheckVocab(vocab));
    for (const TokenId bad : {2, -1, std::numeric_limits<TokenId>::max(),
                              std::numeric_limits<TokenId>::min()}) {
      vocab.*member = bad;
      ExpectCorrupt(vocab);
    }
  }
}

TEST(VocabRulesTest, CompletesTypes) {
  Vocab vocab = Tokens({"a", "<|im_end|>", "<|fim_middle|>"});
  CompleteTypes(&vocab);
  EXPECT_EQ(vocab.types, (std::vector{TokenType::kNormal, TokenType::kControl,
                                      TokenType::kControl}));
  vocab.types = {static_cast<TokenType>(0), TokenType::kUserDefined,
                 static_cast<TokenType>(9)};
  CompleteTypes(&vocab);
  EXPECT_EQ(vocab.types[0], TokenType::kNormal);
  EXPECT_EQ(vocab.types[1], TokenType::kControl);
}

TEST(VocabRulesTest, FindsWhatEndsGeneration) {
  Vocab vocab = Tokens({"a", "<|im_end|>", "<|eot_id|>", "<|EOT|>", "x", "y",
                        "z", "<｜end▁of▁sentence｜>", "<|fim_middle|>"});
  vocab.eos = 4;
  vocab.eot = 5;
  vocab.eom = 6;
  CompleteTypes(&vocab);
  EXPECT_EQ(FindEndsOfGeneration(vocab),
            (std::vector<bool>{false, true, true, false, true, true, true, true,
                               false}));
  vocab.types[3] = TokenType::kControl;  // a normal <|EOT|> may be just text
  EXPECT_TRUE(FindEndsOfGeneration(vocab)[3]);
}

TEST(VocabRulesTest, OnlyPhi3SwallowsSpaces) {
  Vocab vocab =
      Tokens({"<unk>", "<s>", "</s>", "<|endoftext|>", "<|assistant|>",
              "<|placeholder1|>", "<|system|>", "<|end|>", "<|user|>"});
  EXPECT_EQ(FindSpaceSwallowers(vocab),
            (std::vector<bool>{false, false, true, false, true, true, true,
                               true, true}));
  vocab.tokens[5] = "<|other|>";
  EXPECT_EQ(FindSpaceSwallowers(vocab), std::vector<bool>(9, false));
}

TEST(VocabRulesTest, ByteTokens) {
  EXPECT_EQ(ParseByteToken("<0x0A>"), 10);
  EXPECT_EQ(ParseByteToken("<0xff>"), 255);
  EXPECT_EQ(ParseByteToken("<0x00>"), 0);
  for (const char* bad : {"", "<0x-1>", "<0x1>", "<0x001>", "<0xG0>", "<0X00>",
                          "<0x00>>", "0x00>>", "<0x+1>", "<0x 1>"}) {
    EXPECT_EQ(ParseByteToken(bad), std::nullopt) << bad;
  }
}

}  // namespace
}  // namespace thermocline::text

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

TEST(VocabRulesTest, TextsOfControlTokens) {
  for (const char* text :
       {"<|im_start|>", "<|user|>", "<|start_header_id|>", "<|turn>",
        "<channel|>", "<start_of_turn>", "<｜User｜>", "<｜tool▁calls▁begin｜>",
        "<|A|>", "<|reserved_special_token_3|>", "<|0.00s|>"}) {
    EXPECT_TRUE(LooksLikeControl(text)) << text;
  }
  for (const char* text :
       {"",        "<",          "<|",       "<|>",        "<||>",
        "|>",      "<>",         "<|-|>",    "<|12|>",     "<b>",
        "</s>",    "<table>",    "<think>",  "im_start|>", "<|im_start",
        "<|a b|>", "<|a|><|b|>", "<|f(x)|>", "[INST]",     "▁<|a|>",
        "<｜",     "<｜>"}) {
    EXPECT_FALSE(LooksLikeControl(text)) << text;
  }
}

TEST(VocabRulesTest, NormalTokensThatLookLikeControlAreControl) {
  Vocab vocab = Tokens({"<|user|>", "<|tool|>", "<|>", "<b>"});
  vocab.types = {TokenType::kNormal, TokenType::kUserDefined,
                 TokenType::kNormal, TokenType::kNormal};
  CompleteTypes(&vocab);
  EXPECT_EQ(vocab.types,
            (std::vector{TokenType::kControl, TokenType::kUserDefined,
                         TokenType::kNormal, TokenType::kNormal}));
}

TEST(VocabRulesTest, FindsWhatEndsGeneration) {
  Vocab vocab = Tokens({"a", "<|im_end|>", "<|eot_id|>", "<|EOT|>", "x", "y",
                        "z", "<｜end▁of▁sentence｜>", "<|fim_middle|>"});
  vocab.eos = 4;
  vocab.eot = 5;
  vocab.eom = 6;
  CompleteTypes(&vocab);
  EXPECT_EQ(FindEndsOfGeneration(vocab),
            (std::vector<bool>{false, true, true, true, true, true, true, true,
                               false}));
  vocab.types[3] = TokenType::kUnused;
  EXPECT_FALSE(FindEndsOfGeneration(vocab)[3]);
}

// Only both together tell that <|end|> ends a message within an answer.
TEST(VocabRulesTest, MessagesEndWithinTurnsOfGptOss) {
  struct EndCase {
    const char *first, *second;
    std::vector<bool> ends;  // of these two, <|end|> and <|endoftext|>
  };
  const EndCase cases[] = {{"<|return|>", "<|call|>", {1, 1, 0, 1}},
                           {"<|return|>", "<|user|>", {0, 0, 1, 1}},
                           {"<|user|>", "<|call|>", {0, 0, 1, 1}}};
  for (const EndCase& each : cases) {
    Vocab vocab = Tokens({each.first, each.second, "<|end|>", "<|endoftext|>"});
    CompleteTypes(&vocab);
    EXPECT_EQ(FindEndsOfGeneration(vocab), each.ends) << each.second;
    vocab.eot = 2;  // the file's word counts
    EXPECT_TRUE(FindEndsOfGeneration(vocab)[2]);
  }
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

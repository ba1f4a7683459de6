#include "import/sentencepiece.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "import/test_sentencepiece.h"
#include "model/test_log.h"

namespace thermocline::importer {
namespace {

using text::TokenType;

void ExpectBadSentencePiece(const std::string& file, const std::string& part) {
  const auto model = ParseSentencePiece(file, "tokenizer.model");
  ASSERT_FALSE(model.has_value()) << part;
  EXPECT_EQ(model.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(model.error().message.find("tokenizer.model"), std::string::npos);
  EXPECT_NE(model.error().message.find(part), std::string::npos)
      << model.error().message;
}

TEST(ParseSentencePieceTest, AllFields) {
  const auto model = ParseSentencePiece(TestSentencePiece(), "t");
  ASSERT_TRUE(model.has_value()) << model.error().message;
  ASSERT_EQ(model->pieces.size(), 9u);
  EXPECT_EQ(model->pieces[7].text, "\u2581a");
  EXPECT_EQ(model->pieces[7].score, -1.0f);
  EXPECT_EQ(model->pieces[7].type, TokenType::kNormal);
  EXPECT_EQ(model->pieces[3].type, TokenType::kByte);
  EXPECT_EQ(model->model_type, 2);
  EXPECT_EQ(model->unk_id, 0);
  EXPECT_EQ(model->bos_id, 1);
  EXPECT_EQ(model->eos_id, 2);
  EXPECT_EQ(model->pad_id, -1);
  EXPECT_TRUE(model->add_dummy_prefix);
  EXPECT_FALSE(model->remove_extra_whitespaces);
  EXPECT_EQ(model->normalizer, "");
}

TEST(ParseSentencePieceTest, AbsentFieldsHaveTheFormatsDefaults) {
  const auto model = ParseSentencePiece(BytesField(1, BytesField(1, "x")), "t");
  ASSERT_TRUE(model.has_value());
  EXPECT_EQ(model->pieces[0].type, TokenType::kNormal);
  EXPECT_EQ(model->pieces[0].score, 0.0f);
  EXPECT_EQ(model->model_type, 1);
  EXPECT_TRUE(model->add_dummy_prefix);
  EXPECT_TRUE(model->remove_extra_whitespaces);
  EXPECT_TRUE(model->escape_whitespaces);
}

TEST(ParseSentencePieceTest, UnknownFieldsAreSkipped) {
  const std::string file =
      BytesField(9, "self test") + NumberField(100, 7) + FloatField(101, 1) +
      (Varint(102 << 3 | 1) + "12345678") + TestSentencePiece() +
      BytesField(1, BytesField(1, "y") + NumberField(77, 1));
  EXPECT_EQ(ParseSentencePiece(file, "t")->pieces.size(), 10u);
}

TEST(ParseSentencePieceTest, MalformedFields) {
  ExpectBadSentencePiece("", "no pieces");
  ExpectBadSentencePiece(NumberField(9, 1), "no pieces");
  ExpectBadSentencePiece(std::string("\x0b", 1), "unknown kind");  // a group
  ExpectBadSentencePiece(std::string(11, '\xff'), "too long");
  ExpectBadSentencePiece("\x0a\x7f", "too few bytes");
  ExpectBadSentencePiece("\x0a" + Varint(~uint64_t{0}), "too few bytes");
  ExpectBadSentencePiece(BytesField(1, "\x0a\x7f"), "at byte");
  ExpectBadSentencePiece(Piece("x", 0, 0), "unknown type");
  ExpectBadSentencePiece(Piece("x", 0, 7), "unknown type");
  ExpectBadSentencePiece(Piece("\xff", 0, 1), "not UTF-8");
}

// Where a message ends is where its last field does: a file that is cut there
// is whole, but shorter.
TEST(ParseSentencePieceTest, EveryTruncation) {
  const std::string whole = TestSentencePiece();
  size_t num_whole = 0;
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto model = ParseSentencePiece(whole.substr(0, size), "t");
    if (model) ++num_whole;
  }
  EXPECT_EQ(num_whole, 10u);  // behind each piece and the trainer's message
}

class DraftTest : public ::testing::Test {
 protected:
  Result<VocabDraft> Draft(uint64_t num_rows = 9) const {
    return DraftOfSentencePiece(model_, "tokenizer.model", num_rows);
  }

  void ExpectBadDraft(ErrorCode code, const std::string& part) const {
    const auto draft = Draft();
    ASSERT_FALSE(draft.has_value()) << part;
    EXPECT_EQ(draft.error().code, code);
    EXPECT_NE(draft.error().message.find(part), std::string::npos)
        << draft.error().message;
  }

  SentencePieceModel model_ =
      ParseSentencePiece(TestSentencePiece(), "t").value();
};

TEST_F(DraftTest, VocabularyAndFlags) {
  const auto draft = Draft(12);
  ASSERT_TRUE(draft.has_value()) << draft.error().message;
  text::Vocab vocab = draft->vocab;
  draft->tokens.FinishInto(vocab);
  EXPECT_EQ(vocab.kind, text::VocabKind::kSpm);
  EXPECT_EQ(vocab.tokens[8], "ab");
  EXPECT_EQ(vocab.tokens[9], "[PAD9]");
  EXPECT_EQ(vocab.scores[8], -2.0f);
  EXPECT_EQ(vocab.types[0], TokenType::kUnknown);
  EXPECT_EQ(vocab.types[9], TokenType::kUnused);
  EXPECT_EQ(vocab.unk, 0);
  EXPECT_EQ(vocab.bos, 1);
  EXPECT_EQ(vocab.eos, 2);
  EXPECT_EQ(vocab.pad, std::nullopt);
  EXPECT_TRUE(vocab.add_bos);
  EXPECT_TRUE(vocab.add_space_prefix);
  model_.add_dummy_prefix = false;
  EXPECT_FALSE(Draft()->vocab.add_space_prefix);
}

TEST_F(DraftTest, OtherKindsAreNamed) {
  for (const auto& [type, name] :
       {std::pair(1, "unigram"), std::pair(3, "word"), std::pair(4, "char"),
        std::pair(9, "9")}) {
    model_.model_type = type;
    ExpectBadDraft(ErrorCode::kUnsupported, name);
  }
}

TEST_F(DraftTest, SpacesWrittenInAnotherWay) {
  model_.treat_whitespace_as_suffix = true;
  ExpectBadDraft(ErrorCode::kUnsupported, "U+2581");
  model_.treat_whitespace_as_suffix = false;
  model_.escape_whitespaces = false;
  ExpectBadDraft(ErrorCode::kUnsupported, "U+2581");
}

TEST_F(DraftTest, WhatIsLeftOutIsWarnedOf) {
  const model::TestLog log;
  ASSERT_TRUE(Draft().has_value());
  EXPECT_TRUE(log.lines().empty());
  model_.normalizer = "nmt_nfkc";
  model_.remove_extra_whitespaces = true;
  ASSERT_TRUE(Draft().has_value());
  ASSERT_EQ(log.lines().size(), 2u);
  EXPECT_NE(log.lines()[0].find("nmt_nfkc"), std::string::npos);
  EXPECT_NE(log.lines()[1].find("spaces"), std::string::npos);
}

TEST_F(DraftTest, MoreTokensThanRows) {
  const auto draft = Draft(8);
  ASSERT_FALSE(draft.has_value());
  EXPECT_NE(draft.error().message.find("9 tokens"), std::string::npos);
  EXPECT_NE(draft.error().message.find("8 rows"), std::string::npos);
}

TEST_F(DraftTest, SenselessPiecesAndIds) {
  model_.pieces[8].text = "a";
  ExpectBadDraft(ErrorCode::kCorrupt, "\"a\"");
  model_.pieces[8].text = "";
  ExpectBadDraft(ErrorCode::kCorrupt, "no text");
  model_.pieces[8].text = "ab";
  for (const int64_t id : {int64_t{9}, std::numeric_limits<int64_t>::max()}) {
    model_.eos_id = id;
    ExpectBadDraft(ErrorCode::kCorrupt, std::to_string(id));
  }
}

TEST(LooksLikeSentencePieceTest, AgainstTiktoken) {
  EXPECT_TRUE(LooksLikeSentencePiece(TestSentencePiece()));
  EXPECT_FALSE(LooksLikeSentencePiece("IQ== 0\n"));
  EXPECT_FALSE(LooksLikeSentencePiece(""));
}

}  // namespace
}  // namespace thermocline::importer

#include "import/hf_tokenizer_json.h"

#include <gtest/gtest.h>

#include "import/hf_test_folder.h"
#include "model/test_log.h"
#include "text/pretokenizer_patterns.h"

namespace thermocline::importer {
namespace {

using text::TokenType;

class HfTokenizerJsonTest : public ::testing::Test {
 protected:
  Result<VocabDraft> Parse() const {
    return DraftOfTokenizerJson({"tokenizer.json", tokenizer_.dump()},
                                num_rows_);
  }

  void ExpectBad(ErrorCode code, const std::string& part) const {
    const auto parsed = Parse();
    ASSERT_FALSE(parsed.has_value()) << part;
    EXPECT_EQ(parsed.error().code, code) << parsed.error().message;
    EXPECT_NE(parsed.error().message.find("tokenizer.json"), std::string::npos);
    EXPECT_NE(parsed.error().message.find(part), std::string::npos)
        << parsed.error().message;
  }

  Json tokenizer_ = TestTokenizer();
  uint64_t num_rows_ = 12;
};

TEST_F(HfTokenizerJsonTest, TokensTypesAndMerges) {
  const auto parsed = Parse();
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(parsed->vocab.kind, text::VocabKind::kBpe);
  EXPECT_EQ(parsed->vocab.pre, "gpt-2");
  EXPECT_EQ(parsed->vocab.merges,
            (std::vector<std::string>{"a b", "\xc4\xa0 ab"}));
  EXPECT_EQ(parsed->tokens.Find("ab"), 7);
  EXPECT_EQ(parsed->tokens.TypeOf(1), TokenType::kControl);
  EXPECT_EQ(parsed->tokens.TypeOf(7), TokenType::kNormal);
  EXPECT_EQ(parsed->tokens.TypeOf(9), TokenType::kUserDefined);
  EXPECT_EQ(parsed->first, std::nullopt);
}

// As Llama 2's file: characters, bytes where there is none.
Json SpmTokenizer() {
  const Json steps = {{{"type", "Prepend"}, {"prepend", "\u2581"}},
                      {{"type", "Replace"},
                       {"pattern", {{"String", " "}}},
                       {"content", "\u2581"}}};
  Json json = TestTokenizer();
  json["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
  json["pre_tokenizer"] = nullptr;
  json["decoder"] = {{"type", "Sequence"}};
  json["model"] = {{"type", "BPE"},
                   {"byte_fallback", true},
                   {"unk_token", "<unk>"},
                   {"vocab",
                    {{"<unk>", 0},
                     {"<s>", 1},
                     {"</s>", 2},
                     {"<0x41>", 3},
                     {"\u2581", 4},
                     {"a", 5},
                     {"\u2581a", 6}}},
                   {"merges", {"\u2581 a"}}};
  return json;
}

TEST_F(HfTokenizerJsonTest, CharactersWithBytesAreSentencePiece) {
  tokenizer_ = SpmTokenizer();
  const auto parsed = Parse();
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(parsed->vocab.kind, text::VocabKind::kSpm);
  EXPECT_TRUE(parsed->vocab.merges.empty());
  EXPECT_EQ(parsed->vocab.unk, 0);
  EXPECT_EQ(parsed->tokens.TypeOf(0), TokenType::kUnknown);
  EXPECT_EQ(parsed->tokens.TypeOf(1), TokenType::kControl);
  EXPECT_EQ(parsed->tokens.TypeOf(3), TokenType::kByte);
  EXPECT_EQ(parsed->tokens.TypeOf(9), TokenType::kUserDefined);
  tokenizer_["pre_tokenizer"] = {{"type", "ByteLevel"}};
  ExpectBad(ErrorCode::kUnsupported, "\"ByteLevel\"");
}

// As Gemma 4's file: the merges are kept as they are.
TEST_F(HfTokenizerJsonTest, CharactersWithMergesKept) {
  tokenizer_ = SpmTokenizer();
  tokenizer_["normalizer"] = tokenizer_["normalizer"]["normalizers"][1];
  tokenizer_["pre_tokenizer"] = {{"type", "Split"},
                                 {"pattern", {{"String", " "}}},
                                 {"behavior", "MergedWithPrevious"},
                                 {"invert", false}};
  const auto parsed = Parse();
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(parsed->vocab.kind, text::VocabKind::kCharBpe);
  EXPECT_EQ(parsed->vocab.pre, "");
  EXPECT_EQ(parsed->vocab.merges, std::vector<std::string>{"\u2581 a"});
  EXPECT_EQ(parsed->vocab.unk, 0);
  EXPECT_FALSE(parsed->vocab.add_space_prefix);
  EXPECT_EQ(parsed->tokens.TypeOf(3), TokenType::kByte);
  tokenizer_["pre_tokenizer"]["pattern"] = {{"String", "a"}};
  ExpectBad(ErrorCode::kUnsupported, "\"Split\"");
  tokenizer_["pre_tokenizer"]["pattern"] = {{"String", " "}};
  tokenizer_["normalizer"] = nullptr;
  ExpectBad(ErrorCode::kUnsupported, "\"Split\"");
}

TEST_F(HfTokenizerJsonTest, WhatAddedTokensSwallow) {
  Json& added = tokenizer_["added_tokens"];
  added[1]["rstrip"] = true;
  added[3]["lstrip"] = true;
  const model::TestLog log;
  auto parsed = Parse();
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(parsed->vocab.lstrip, std::vector<text::TokenId>{9});
  EXPECT_EQ(parsed->vocab.rstrip, std::vector<text::TokenId>{1});
  EXPECT_TRUE(log.lines().empty());
  added[3]["single_word"] = true;
  ASSERT_TRUE(Parse().has_value());
  ASSERT_EQ(log.lines().size(), 1u);
  EXPECT_NE(log.lines()[0].find("\"<tool>\" has \"single_word\""),
            std::string::npos);
}

// They part the text, unlike the symbols of a SentencePiece model itself.
TEST_F(HfTokenizerJsonTest, AddedTokensOfSentencePieceAreMarkedAsSuch) {
  tokenizer_ = SpmTokenizer();
  auto parsed = Parse();
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  parsed->tokens.FinishInto(parsed->vocab);
  EXPECT_EQ(parsed->vocab.scores[9], text::kAddedTokenScore);
}

TEST_F(HfTokenizerJsonTest, MergesThatAreNoPairs) {
  tokenizer_["model"]["merges"] = Json::array({"a b c"});
  ExpectBad(ErrorCode::kCorrupt, "merges");
  tokenizer_["model"].erase("merges");
  ExpectBad(ErrorCode::kCorrupt, "merges");
}

TEST_F(HfTokenizerJsonTest, IdsMustFitTheEmbedding) {
  num_rows_ = 10;
  EXPECT_TRUE(Parse().has_value());
  num_rows_ = 9;
  ExpectBad(ErrorCode::kCorrupt, "9 rows");
  num_rows_ = 12;
  const Json ids = Json::parse(R"([-1, "3", 1.5, null, 9223372036854775808])");
  for (const Json& id : ids) {
    tokenizer_["model"]["vocab"]["odd"] = id;
    ExpectBad(ErrorCode::kCorrupt, "\"odd\"");
  }
}

TEST_F(HfTokenizerJsonTest, IdsMustBeUnique) {
  tokenizer_["model"]["vocab"]["other"] = 7;
  ExpectBad(ErrorCode::kCorrupt, "id 7");
  tokenizer_ = TestTokenizer();
  tokenizer_["added_tokens"].push_back({{"id", 10}, {"content", "ab"}});
  ExpectBad(ErrorCode::kCorrupt, "\"ab\"");
}

// Llama 3 says only here that its texts begin with BOS.
TEST_F(HfTokenizerJsonTest, PostProcessorTellsWhatIsAdded) {
  const Json sequence = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const auto special = [](const char* text) {
    return Json{{"SpecialToken", {{"id", text}, {"type_id", 0}}}};
  };
  tokenizer_["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {special("<s>"), sequence, special("</s>")}}};
  EXPECT_EQ(Parse()->first, 1);
  EXPECT_EQ(Parse()->last, 2);
  tokenizer_["post_processor"] = {{"type", "Sequence"},
                                  {"processors",
                                   {{{"type", "ByteLevel"}},
                                    {{"type", "TemplateProcessing"},
                                     {"single", {special("<s>"), sequence}}}}}};
  EXPECT_EQ(Parse()->first, 1);
  EXPECT_EQ(Parse()->last, std::nullopt);
}

TEST_F(HfTokenizerJsonTest, OtherTokenizersAreRefusedByName) {
  for (const char* type : {"Unigram", "WordPiece", "WordLevel"}) {
    tokenizer_["model"]["type"] = type;
    ExpectBad(ErrorCode::kUnsupported, type);
  }
  tokenizer_ = TestTokenizer();
  tokenizer_["decoder"] = {{"type", "Metaspace"}};
  ExpectBad(ErrorCode::kUnsupported, "byte_fallback");
  tokenizer_ = TestTokenizer();
  tokenizer_["model"]["end_of_word_suffix"] = "</w>";
  ExpectBad(ErrorCode::kUnsupported, "</w>");
  tokenizer_ = TestTokenizer();
  tokenizer_["normalizer"] = {{"type", "Lowercase"}};
  ExpectBad(ErrorCode::kUnsupported, "Lowercase");
}

TEST_F(HfTokenizerJsonTest, WhetherWordsAreTakenWholeWithoutTheNameSayingSo) {
  EXPECT_FALSE(Parse()->takes_whole_words);
  tokenizer_["model"]["ignore_merges"] = true;
  EXPECT_TRUE(Parse()->takes_whole_words);
  tokenizer_["pre_tokenizer"] = CutBy(text::kTekkenPattern);
  EXPECT_FALSE(Parse()->takes_whole_words);
}

TEST_F(HfTokenizerJsonTest, WordsOverCharactersAreNotTakenWhole) {
  tokenizer_ = SpmTokenizer();
  EXPECT_TRUE(Parse().has_value());
  tokenizer_["model"]["ignore_merges"] = true;
  ExpectBad(ErrorCode::kUnsupported, "\"ignore_merges\" of a vocabulary over");
}

TEST_F(HfTokenizerJsonTest, Llama3WithMergesHasANameOfItsOwn) {
  tokenizer_["pre_tokenizer"] = CutBy(text::kLlama3Pattern);
  EXPECT_EQ(Parse()->vocab.pre, "smaug-bpe");
  tokenizer_["model"]["ignore_merges"] = false;
  EXPECT_EQ(Parse()->vocab.pre, "smaug-bpe");
  tokenizer_["model"]["ignore_merges"] = true;
  EXPECT_EQ(Parse()->vocab.pre, "llama3");
}

TEST_F(HfTokenizerJsonTest, TekkenIgnoresMerges) {
  tokenizer_["pre_tokenizer"] = CutBy(text::kTekkenPattern);
  ExpectBad(ErrorCode::kUnsupported, "tekken without \"ignore_merges\"");
  tokenizer_["model"]["ignore_merges"] = true;
  EXPECT_EQ(Parse()->vocab.pre, "tekken");
}

TEST_F(HfTokenizerJsonTest, UnknownPreTokenizersAreNamed) {
  tokenizer_["pre_tokenizer"] = {{"type", "Whitespace"}};
  ExpectBad(ErrorCode::kUnsupported, "unknown pre-tokenizer: \"Whitespace\"");
  tokenizer_["decoder"] = {{"type", "BPEDecoder"}};
  ExpectBad(ErrorCode::kUnsupported, "unknown pre-tokenizer: \"Whitespace\"");
  tokenizer_["pre_tokenizer"] = nullptr;
  ExpectBad(ErrorCode::kUnsupported, "unknown pre-tokenizer: none");
  // Not a name that stands for something here.
  tokenizer_ = TestTokenizer();
  tokenizer_["pre_tokenizer"] = {{"type", "bytes, gpt-2"}};
  ExpectBad(ErrorCode::kUnsupported, "byte_fallback");
}

TEST_F(HfTokenizerJsonTest, HarmlessNormalizers) {
  tokenizer_["normalizer"] = {{"type", "NFC"}};
  EXPECT_TRUE(Parse().has_value());
  tokenizer_["normalizer"] = {{"type", "Sequence"},
                              {"normalizers", Json::array()}};
  EXPECT_TRUE(Parse().has_value());
}

TEST_F(HfTokenizerJsonTest, MissingParts) {
  tokenizer_.erase("model");
  ExpectBad(ErrorCode::kCorrupt, "model");
  tokenizer_ = TestTokenizer();
  tokenizer_["model"].erase("vocab");
  ExpectBad(ErrorCode::kCorrupt, "vocab");
  tokenizer_ = TestTokenizer();
  tokenizer_["added_tokens"] = 3;
  ExpectBad(ErrorCode::kCorrupt, "added_tokens");
  tokenizer_ = Json::array();
  ExpectBad(ErrorCode::kCorrupt, "object");
}

TEST_F(HfTokenizerJsonTest, EveryTruncation) {
  for (const Json& json : {TestTokenizer(), SpmTokenizer()}) {
    const std::string whole = json.dump();
    for (size_t size = 0; size < whole.size(); ++size) {
      const auto parsed =
          DraftOfTokenizerJson({"t", whole.substr(0, size)}, 12);
      ASSERT_FALSE(parsed.has_value()) << size;
      EXPECT_EQ(parsed.error().code, ErrorCode::kCorrupt);
    }
  }
}

}  // namespace
}  // namespace thermocline::importer

#include "import/hf_tokenizer.h"

#include <gtest/gtest.h>

#include "import/hf_test_folder.h"
#include "import/json.h"
#include "import/test_sentencepiece.h"
#include "text/pretokenizer_patterns.h"
#include "text/tokenizer.h"

namespace thermocline::importer {
namespace {

using text::TokenType;
using text::VocabKind;

class HfTokenizerTest : public ::testing::Test {
 protected:
  HfTokenizerTest() {
    sources_.folder = "models/x";
    sources_.architecture = "llama";
    sources_.num_rows = 12;
    sources_.tokenizer_json =
        NamedText{"tokenizer.json", TestTokenizer().dump()};
    sources_.config =
        NamedText{"tokenizer_config.json", TestTokenizerConfig().dump()};
  }

  Result<HfTokenizer> Parse() { return ParseHfTokenizer(sources_); }

  void ExpectBad(ErrorCode code, const std::string& part) {
    const auto parsed = Parse();
    ASSERT_FALSE(parsed.has_value()) << part;
    EXPECT_EQ(parsed.error().code, code) << parsed.error().message;
    EXPECT_NE(parsed.error().message.find(part), std::string::npos)
        << parsed.error().message;
  }

  TokenizerSources sources_;
};

TEST_F(HfTokenizerTest, TokenizerJson) {
  const auto parsed = Parse();
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  const text::Vocab& vocab = parsed->vocab;
  ASSERT_EQ(vocab.tokens.size(), 12u);
  EXPECT_EQ(vocab.tokens[7], "ab");
  EXPECT_EQ(vocab.tokens[9], "<tool>");
  EXPECT_EQ(vocab.tokens[10], "[PAD10]");
  EXPECT_EQ(vocab.types[11], TokenType::kUnused);
  EXPECT_EQ(vocab.bos, 1);
  EXPECT_EQ(vocab.eos, 2);
  EXPECT_TRUE(vocab.add_bos);
  EXPECT_FALSE(vocab.add_eos);
  EXPECT_EQ(parsed->chat_templates.at(0).second, "{{ messages }}");
}

// Where merges lead to every token, their being ignored changes nothing.
TEST_F(HfTokenizerTest, Llama3TakesWholeWordsOnlyIfTheFileSaysSo) {
  Json tokenizer = TestTokenizer();
  tokenizer["pre_tokenizer"] = CutBy(text::kLlama3Pattern);
  tokenizer["model"]["vocab"]["abc"] = 10;
  const auto ids = [&](bool ignore_merges) {
    tokenizer["model"]["ignore_merges"] = ignore_merges;
    sources_.tokenizer_json->text = tokenizer.dump();
    return (*text::Tokenizer::Create(Parse()->vocab))
        ->Encode("abc", {.add_special = false})
        .value();
  };
  EXPECT_EQ(ids(true), std::vector<text::TokenId>({10}));
  EXPECT_EQ(ids(false), std::vector<text::TokenId>({7, 5}));
  tokenizer["model"]["merges"].push_back("ab c");
  EXPECT_EQ(ids(true), std::vector<text::TokenId>({10}));
  EXPECT_EQ(ids(false), std::vector<text::TokenId>({10}));
}

// GPT-2's rules do not take words whole: that must not matter.
TEST_F(HfTokenizerTest, WholeWordsOfOtherPreTokenizersAreWhatMergesMake) {
  Json tokenizer = TestTokenizer();
  tokenizer["model"]["ignore_merges"] = true;
  // No word, so never taken whole: a space ends the one in front.
  tokenizer["model"]["vocab"]["b\xc4\xa0"] = 10;
  sources_.tokenizer_json->text = tokenizer.dump();
  const auto parsed = Parse();
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(parsed->vocab.pre, "gpt-2");
  tokenizer["model"]["vocab"]
           ["\xc4\xa0"
            "ba"] = 11;
  sources_.tokenizer_json->text = tokenizer.dump();
  ExpectBad(ErrorCode::kUnsupported,
            "tokenizer.json: \"ignore_merges\" with the pre-tokenizer gpt-2");
  ExpectBad(ErrorCode::kUnsupported,
            "token 11, \"\xc4\xa0"
            "ba\"");
  tokenizer["model"]["ignore_merges"] = false;
  sources_.tokenizer_json->text = tokenizer.dump();
  EXPECT_TRUE(Parse().has_value());
}

TEST_F(HfTokenizerTest, SentencePieceCountsBeforeTokenizerJson) {
  sources_.tokenizer_model = NamedText{"tokenizer.model", TestSentencePiece()};
  const auto parsed = Parse();
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(parsed->vocab.kind, VocabKind::kSpm);
  EXPECT_EQ(parsed->vocab.tokens[8], "ab");
  EXPECT_EQ(parsed->vocab.scores.size(), 12u);
}

// Newer Llama and Mistral folders have both files.
TEST_F(HfTokenizerTest, TokenizerJsonSaysWhereSentencePiecePutsSpaces) {
  sources_.tokenizer_model = NamedText{"tokenizer.model", TestSentencePiece()};
  for (const char* scheme : {"first", "always"}) {
    Json tokenizer = TestTokenizer();
    tokenizer["pre_tokenizer"] = {{"type", "Metaspace"},
                                  {"replacement", "\u2581"},
                                  {"prepend_scheme", scheme},
                                  {"split", false}};
    sources_.tokenizer_json->text = tokenizer.dump();
    const auto parsed = Parse();
    ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
    EXPECT_TRUE(parsed->vocab.add_space_prefix);
    EXPECT_EQ(parsed->vocab.space_prefix_once, scheme == std::string("first"));
  }
}

TEST_F(HfTokenizerTest, TiktokenComesAfterTokenizerJson) {
  sources_.tokenizer_model = NamedText{"tokenizer.model", "IQ== 0\n"};
  EXPECT_EQ(Parse()->vocab.pre, "gpt-2");
  sources_.tokenizer_json.reset();
  ExpectBad(ErrorCode::kCorrupt, "tiktoken");
  sources_.tiktoken = sources_.tokenizer_model;
  sources_.tokenizer_model.reset();
  ExpectBad(ErrorCode::kCorrupt, "tiktoken");
}

TEST_F(HfTokenizerTest, VocabJsonAndMergesComeLast) {
  sources_.tokenizer_json.reset();
  sources_.vocab_json = NamedText{
      "vocab.json", R"({"<s>": 0, "</s>": 2, "a": 3, "b": 4, "ab": 5})"};
  ExpectBad(ErrorCode::kNotFound, "models/x");
  sources_.merges_txt = NamedText{"merges.txt", "a b\n"};
  sources_.architecture = "opt";
  const auto parsed = Parse();
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(parsed->vocab.bos, 0);  // tokenizer_config.json counts
  EXPECT_EQ(parsed->vocab.merges, std::vector<std::string>{"a b"});
}

TEST_F(HfTokenizerTest, NothingThere) {
  sources_.tokenizer_json.reset();
  ExpectBad(ErrorCode::kNotFound, "models/x: there is no tokenizer");
}

TEST_F(HfTokenizerTest, AddedTokensOfTheSmallFiles) {
  sources_.tokenizer_model = NamedText{"tokenizer.model", TestSentencePiece()};
  sources_.added_tokens = NamedText{"added_tokens.json", R"({"<tool>": 9})"};
  Json config = TestTokenizerConfig();
  config["added_tokens_decoder"] = {
      {"10", {{"content", "<|im_end|>"}, {"special", true}}}};
  config["eos_token"] = "<|im_end|>";
  sources_.config = NamedText{"tokenizer_config.json", config.dump()};
  sources_.eos_ids = {10, 2};
  const auto parsed = Parse();
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(parsed->vocab.tokens[9], "<tool>");
  EXPECT_EQ(parsed->vocab.types[9], TokenType::kUserDefined);
  EXPECT_EQ(parsed->vocab.eos, 10);
  EXPECT_EQ(parsed->vocab.eot, 2);
  // Behind the embedding's rows, as padding often is.
  sources_.added_tokens = NamedText{"added_tokens.json", R"({"<pad>": 12})"};
  const auto padded = Parse();
  ASSERT_TRUE(padded.has_value()) << padded.error().message;
  EXPECT_EQ(padded->vocab.tokens.size(), 12u);
  sources_.added_tokens = NamedText{"added_tokens.json", R"({"<pad>": "9"})"};
  ExpectBad(ErrorCode::kCorrupt, "added_tokens.json");
}

TEST_F(HfTokenizerTest, TheDecoderNamesWhatTokenizerJsonLacks) {
  Json config = TestTokenizerConfig();
  config["added_tokens_decoder"] = {
      {"7", {{"content", "other"}}},
      {"10", {{"content", "<|im_end|>"}, {"special", true}}}};
  config["eos_token"] = "<|im_end|>";
  sources_.config->text = config.dump();
  const auto parsed = Parse();
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(parsed->vocab.tokens[7], "ab");
  EXPECT_EQ(parsed->vocab.tokens[10], "<|im_end|>");
  EXPECT_EQ(parsed->vocab.types[10], TokenType::kControl);
  EXPECT_EQ(parsed->vocab.eos, 10);
}

// As where a model was tuned on with tokens of its own.
TEST_F(HfTokenizerTest, AddedTokensOfTokenizerJsonBesideSentencePiece) {
  sources_.tokenizer_model = NamedText{"tokenizer.model", TestSentencePiece()};
  const Json added = {{"content", "<|im_end|>"}, {"id", 9}, {"special", true}};
  sources_.tokenizer_json = NamedText{
      "tokenizer.json", Json{{"added_tokens", Json::array({added})}}.dump()};
  const auto parsed = Parse();
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(parsed->vocab.tokens[9], "<|im_end|>");
  EXPECT_EQ(parsed->vocab.types[9], TokenType::kControl);
  // The other files count before it.
  sources_.added_tokens = NamedText{"added_tokens.json", R"({"<tool>": 9})"};
  const auto both = Parse();
  ASSERT_TRUE(both.has_value()) << both.error().message;
  EXPECT_EQ(both->vocab.tokens[9], "<tool>");
}

TEST_F(HfTokenizerTest, SpecialTokensMap) {
  sources_.config.reset();
  sources_.special_tokens_map =
      NamedText{"special_tokens_map.json", R"({"eos_token": "</s>"})"};
  sources_.bos_id = 1;
  const auto parsed = Parse();
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(parsed->vocab.eos, 2);
  EXPECT_EQ(parsed->vocab.bos, 1);
  EXPECT_FALSE(parsed->vocab.add_bos);
  EXPECT_TRUE(parsed->chat_templates.empty());
  sources_.special_tokens_map->text = "[]";
  ExpectBad(ErrorCode::kCorrupt, "special_tokens_map.json");
}

TEST_F(HfTokenizerTest, WhereChatTemplatesAre) {
  sources_.chat_template_json =
      NamedText{"chat_template.json", R"({"chat_template": "J"})"};
  EXPECT_EQ(Parse()->chat_templates, (ChatTemplates{{"default", "J"}}));
  sources_.chat_template_jinja = NamedText{"chat_template.jinja", "K"};
  EXPECT_EQ(Parse()->chat_templates, (ChatTemplates{{"default", "K"}}));
  sources_.chat_template_jinja.reset();
  sources_.chat_template_json->text = "{";
  ExpectBad(ErrorCode::kCorrupt, "chat_template.json");
}

TEST_F(HfTokenizerTest, BrokenSmallFilesAreNamed) {
  sources_.config->text = "{";
  ExpectBad(ErrorCode::kCorrupt, "tokenizer_config.json");
  sources_.config->text = R"({"chat_template": 3})";
  ExpectBad(ErrorCode::kCorrupt, "tokenizer_config.json");
}

TEST_F(HfTokenizerTest, WhatTheTokenizerRefusesNamesTheFile) {
  std::string file = TestSentencePiece();
  file += Piece("odd", 0, 6);  // a byte token of another form
  sources_.tokenizer_model = NamedText{"tokenizer.model", file};
  ExpectBad(ErrorCode::kCorrupt, "tokenizer.model");
}

TEST(ReadTokenizerFilesTest, WhatIsThere) {
  const os::TestFolder folder;
  folder.Write("tokenizer.model", "m");
  folder.Write("chat_template.jinja", "j");
  folder.Write("merges.txt", "\xEF\xBB\xBF#version: 0.2");
  const auto sources = ReadTokenizerFiles(folder.path());
  ASSERT_TRUE(sources.has_value());
  EXPECT_EQ(sources->tokenizer_model->text, "m");
  EXPECT_EQ(sources->tokenizer_model->path, folder / "tokenizer.model");
  EXPECT_EQ(sources->chat_template_jinja->text, "j");
  EXPECT_FALSE(sources->tokenizer_json.has_value());
  EXPECT_EQ(sources->merges_txt->text, "#version: 0.2");
}

}  // namespace
}  // namespace thermocline::importer

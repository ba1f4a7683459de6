#include "convert/hf_tokenizer.h"

#include <gtest/gtest.h>

#include "convert/hf_test_folder.h"
#include "convert/json.h"

namespace thermocline::convert {
namespace {

using text::TokenType;

class HfTokenizerTest : public ::testing::Test {
 protected:
  Result<HfTokenizer> Parse() {
    sources_.tokenizer = {"tokenizer.json", tokenizer_.dump()};
    sources_.config = NamedText{"tokenizer_config.json", config_.dump()};
    return ParseHfTokenizer(sources_);
  }

  void ExpectBad(ErrorCode code, const std::string& part) {
    const auto parsed = Parse();
    ASSERT_FALSE(parsed.has_value()) << part;
    EXPECT_EQ(parsed.error().code, code) << parsed.error().message;
    EXPECT_NE(parsed.error().message.find(part), std::string::npos)
        << parsed.error().message;
  }

  Json tokenizer_ = TestTokenizer();
  Json config_ = TestTokenizerConfig();
  TokenizerSources sources_ = {{}, {}, {}, {}, 12};
};

TEST_F(HfTokenizerTest, TokensTypesAndMerges) {
  const auto parsed = Parse();
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  const text::Vocab& vocab = parsed->vocab;
  EXPECT_EQ(vocab.kind, text::VocabKind::kBpe);
  EXPECT_EQ(vocab.pre, "gpt-2");
  ASSERT_EQ(vocab.tokens.size(), 12u);
  EXPECT_EQ(vocab.tokens[7], "ab");
  EXPECT_EQ(vocab.tokens[9], "<tool>");
  EXPECT_EQ(vocab.tokens[10], "[PAD10]");
  EXPECT_EQ(vocab.types[1], TokenType::kControl);
  EXPECT_EQ(vocab.types[7], TokenType::kNormal);
  EXPECT_EQ(vocab.types[9], TokenType::kUserDefined);
  EXPECT_EQ(vocab.types[11], TokenType::kUnused);
  EXPECT_EQ(vocab.merges, (std::vector<std::string>{"a b", "\xc4\xa0 ab"}));
  EXPECT_EQ(vocab.bos, 1);
  EXPECT_EQ(vocab.eos, 2);
  EXPECT_TRUE(vocab.add_bos);
  EXPECT_FALSE(vocab.add_eos);
}

TEST_F(HfTokenizerTest, MergesAsPairs) {
  tokenizer_["model"]["merges"] =
      Json::array({Json::array({"a", "b"}), Json::array({"\xc4\xa0", "ab"})});
  EXPECT_EQ(Parse()->vocab.merges,
            (std::vector<std::string>{"a b", "\xc4\xa0 ab"}));
}

TEST_F(HfTokenizerTest, MergesThatAreNoPairs) {
  const Json merges = Json::parse(R"(["ab", "a b c", " b", "a ", "", 7, ["a"],
      ["a", "b", "c"], ["a", 1], ["a ", "b"], ["", "b"], null])");
  for (const Json& merge : merges) {
    tokenizer_["model"]["merges"] = Json::array({merge});
    ExpectBad(ErrorCode::kCorrupt, "merges");
  }
  tokenizer_["model"].erase("merges");
  ExpectBad(ErrorCode::kCorrupt, "merges");
}

TEST_F(HfTokenizerTest, HolesInTheIdsAreUnusedTokens) {
  tokenizer_["model"]["vocab"]["far"] = 11;
  const text::Vocab vocab = Parse()->vocab;
  EXPECT_EQ(vocab.tokens[10], "[PAD10]");
  EXPECT_EQ(vocab.types[10], TokenType::kUnused);
  EXPECT_EQ(vocab.tokens[11], "far");
}

TEST_F(HfTokenizerTest, IdsMustFitTheEmbedding) {
  sources_.num_rows = 10;
  EXPECT_TRUE(Parse().has_value());
  sources_.num_rows = 9;
  ExpectBad(ErrorCode::kCorrupt, "9 rows");
  sources_.num_rows = 12;
  const Json ids = Json::parse(R"([-1, "3", 1.5, null, 9223372036854775808])");
  for (const Json& id : ids) {
    tokenizer_["model"]["vocab"]["odd"] = id;
    ExpectBad(ErrorCode::kCorrupt, "\"odd\"");
  }
}

TEST_F(HfTokenizerTest, IdsMustBeUnique) {
  tokenizer_["model"]["vocab"]["other"] = 7;
  ExpectBad(ErrorCode::kCorrupt, "id 7");
  tokenizer_ = TestTokenizer();
  tokenizer_["added_tokens"].push_back({{"id", 10}, {"content", "ab"}});
  ExpectBad(ErrorCode::kCorrupt, "\"ab\"");
}

TEST_F(HfTokenizerTest, SpecialTokensByTextOrByFallback) {
  config_ = Json::object();
  sources_.bos_id = 1;
  sources_.eos_id = 2;
  text::Vocab vocab = Parse()->vocab;
  EXPECT_EQ(vocab.bos, 1);
  EXPECT_EQ(vocab.eos, 2);
  EXPECT_FALSE(vocab.add_bos);
  sources_.eos_id = 4000;  // outside: left out
  EXPECT_EQ(Parse()->vocab.eos, std::nullopt);
  config_["bos_token"] = "</s>";  // the text counts more
  EXPECT_EQ(Parse()->vocab.bos, 2);
  config_["bos_token"] = "nowhere";
  ExpectBad(ErrorCode::kCorrupt, "\"nowhere\"");
  config_["bos_token"] = 5;
  ExpectBad(ErrorCode::kCorrupt, "bos_token");
}

TEST_F(HfTokenizerTest, WithoutTokenizerConfig) {
  sources_.tokenizer = {"tokenizer.json", tokenizer_.dump()};
  sources_.config.reset();
  sources_.bos_id = 1;
  const auto parsed = ParseHfTokenizer(sources_);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->vocab.bos, 1);
  EXPECT_FALSE(parsed->vocab.add_bos);
  EXPECT_TRUE(parsed->chat_templates.empty());
}

// Llama 3 says only here that its texts begin with BOS.
TEST_F(HfTokenizerTest, PostProcessorTellsWhatIsAdded) {
  config_.erase("add_bos_token");
  EXPECT_FALSE(Parse()->vocab.add_bos);
  const Json sequence = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const auto special = [](const char* text) {
    return Json{{"SpecialToken", {{"id", text}, {"type_id", 0}}}};
  };
  tokenizer_["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {special("<s>"), sequence, special("</s>")}}};
  EXPECT_TRUE(Parse()->vocab.add_bos);
  EXPECT_TRUE(Parse()->vocab.add_eos);
  tokenizer_["post_processor"] = {{"type", "Sequence"},
                                  {"processors",
                                   {{{"type", "ByteLevel"}},
                                    {{"type", "TemplateProcessing"},
                                     {"single", {special("<s>"), sequence}}}}}};
  EXPECT_TRUE(Parse()->vocab.add_bos);
  EXPECT_FALSE(Parse()->vocab.add_eos);
  config_["add_bos_token"] = false;
  EXPECT_FALSE(Parse()->vocab.add_bos);
}

TEST_F(HfTokenizerTest, OtherTokenizersAreRefusedByName) {
  for (const char* type : {"Unigram", "WordPiece", "WordLevel"}) {
    tokenizer_["model"]["type"] = type;
    ExpectBad(ErrorCode::kUnsupported, type);
  }
  tokenizer_ = TestTokenizer();
  tokenizer_["model"]["byte_fallback"] = true;
  ExpectBad(ErrorCode::kUnsupported, "SentencePiece");
  tokenizer_ = TestTokenizer();
  tokenizer_["decoder"] = {{"type", "Metaspace"}};
  ExpectBad(ErrorCode::kUnsupported, "SentencePiece");
  tokenizer_ = TestTokenizer();
  tokenizer_["model"]["end_of_word_suffix"] = "</w>";
  ExpectBad(ErrorCode::kUnsupported, "</w>");
  tokenizer_ = TestTokenizer();
  tokenizer_["normalizer"] = {{"type", "Lowercase"}};
  ExpectBad(ErrorCode::kUnsupported, "Lowercase");
  tokenizer_ = TestTokenizer();
  tokenizer_["model"]["ignore_merges"] = true;
  ExpectBad(ErrorCode::kUnsupported, "ignore_merges");
}

TEST_F(HfTokenizerTest, HarmlessNormalizers) {
  tokenizer_["normalizer"] = {{"type", "NFC"}};
  EXPECT_TRUE(Parse().has_value());
  tokenizer_["normalizer"] = {{"type", "Sequence"},
                              {"normalizers", Json::array()}};
  EXPECT_TRUE(Parse().has_value());
}

TEST_F(HfTokenizerTest, MissingParts) {
  tokenizer_.erase("model");
  ExpectBad(ErrorCode::kCorrupt, "model");
  tokenizer_ = TestTokenizer();
  tokenizer_["model"].erase("vocab");
  ExpectBad(ErrorCode::kCorrupt, "vocab");
  tokenizer_ = TestTokenizer();
  tokenizer_["added_tokens"] = 3;
  ExpectBad(ErrorCode::kCorrupt, "added_tokens");
  tokenizer_ = Json::array();
  ExpectBad(ErrorCode::kCorrupt, "tokenizer.json");
}

TEST_F(HfTokenizerTest, MergesOfUnknownTokensAreCaught) {
  for (const char* merge : {"b c", "a x", "x b"}) {
    tokenizer_["model"]["merges"] = Json::array({merge});
    ExpectBad(ErrorCode::kCorrupt, merge);
  }
}

TEST_F(HfTokenizerTest, ChatTemplates) {
  EXPECT_EQ(Parse()->chat_templates.at(0).second, "{{ messages }}");
  config_["chat_template"] = {{{"name", "rag"}, {"template", "R"}},
                              {{"name", "default"}, {"template", "D"}}};
  const auto templates = Parse()->chat_templates;
  ASSERT_EQ(templates.size(), 2u);
  EXPECT_EQ(templates[0].first, "default");
  config_["chat_template"] = 3;
  ExpectBad(ErrorCode::kCorrupt, "chat_template");
  config_["chat_template"] = {{{"name", "x"}}};
  ExpectBad(ErrorCode::kCorrupt, "template");
}

TEST_F(HfTokenizerTest, NamesOfChatTemplatesMustServeAsKeys) {
  for (const char* name : {"rag", "default"}) {
    const Json entry = {{"name", name}, {"template", "R"}};
    config_["chat_template"] = Json::array({entry, entry});
    ExpectBad(ErrorCode::kCorrupt, "tokenizer_config.json: chat_template");
    ExpectBad(ErrorCode::kCorrupt, std::string("\"") + name + "\" in two");
  }
  const Json entry = {{"name", std::string(70'000, 'n')}, {"template", "R"}};
  config_["chat_template"] = Json::array({entry});
  ExpectBad(ErrorCode::kCorrupt, "tokenizer_config.json: chat_template");
  ExpectBad(ErrorCode::kCorrupt, "70000");
}

}  // namespace
}  // namespace thermocline::convert

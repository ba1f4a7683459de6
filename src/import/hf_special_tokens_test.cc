#include "import/hf_special_tokens.h"

#include <gtest/gtest.h>

#include "model/test_log.h"

namespace thermocline::importer {
namespace {

using text::TokenType;

class SpecialTokensTest : public ::testing::Test {
 protected:
  SpecialTokensTest() {
    uint64_t id = 0;
    for (const char* text : {"<unk>", "<s>", "</s>", "a", "<|eot_id|>",
                             "<|eom_id|>", "<reserved>"}) {
      EXPECT_TRUE(draft_.tokens.Add("t", text, id++, TokenType::kNormal));
    }
    draft_.vocab.kind = text::VocabKind::kSpm;
  }

  JsonFields Config() const {
    return JsonFields::Of(config_, "c.json").value();
  }

  Status Read() {
    return ReadSpecialTokens({Config(), JsonFields::Of(map_, "m.json").value(),
                              bos_id_, pad_id_, eos_ids_},
                             draft_);
  }

  void ExpectBad(const Status& status, const std::string& part) {
    ASSERT_FALSE(status.has_value()) << part;
    EXPECT_EQ(status.error().code, ErrorCode::kCorrupt);
    EXPECT_NE(status.error().message.find(part), std::string::npos)
        << status.error().message;
  }

  Json config_ = Json::object();
  Json map_ = Json::object();
  std::optional<int64_t> bos_id_, pad_id_;
  std::vector<int64_t> eos_ids_;
  VocabDraft draft_ = {VocabBuilder(9), {}, {}, {}};
};

TEST_F(SpecialTokensTest, TheConfigCountsBeforeTheMapAndBothBeforeIds) {
  config_ = {{"bos_token", "<s>"}, {"unk_token", nullptr}};
  map_ = {{"bos_token", "</s>"},
          {"eos_token", {{"content", "</s>"}}},
          {"unk_token", "<unk>"}};
  bos_id_ = 3;
  eos_ids_ = {2};
  pad_id_ = 0;
  ASSERT_TRUE(Read());
  EXPECT_EQ(draft_.vocab.bos, 1);
  EXPECT_EQ(draft_.vocab.eos, 2);
  EXPECT_EQ(draft_.vocab.unk, 0);
  EXPECT_EQ(draft_.vocab.pad, 0);
  EXPECT_EQ(draft_.vocab.eot, std::nullopt);
  EXPECT_EQ(draft_.tokens.TypeOf(1), TokenType::kControl);
}

TEST_F(SpecialTokensTest, IdsFillInAndTheVocabularysOwnStay) {
  draft_.vocab.bos = 1;
  bos_id_ = 3;
  eos_ids_ = {4000, 2};
  const model::TestLog log;
  ASSERT_TRUE(Read());
  EXPECT_EQ(draft_.vocab.bos, 1);
  EXPECT_EQ(draft_.vocab.eos, 2);
  EXPECT_EQ(draft_.vocab.eot, std::nullopt);
  ASSERT_FALSE(log.lines().empty());
  EXPECT_NE(log.lines()[0].find("4000"), std::string::npos);
}

TEST_F(SpecialTokensTest, NamesThatAreNoTokens) {
  config_ = {{"bos_token", "nowhere"}};
  ExpectBad(Read(), "\"nowhere\"");
  config_ = {{"eos_token", 5}};
  ExpectBad(Read(), "eos_token");
  config_ = {{"eos_token", {{"lstrip", false}}}};
  ExpectBad(Read(), "content");
  const model::TestLog log;
  config_ = {{"pad_token", "nowhere"}};
  ASSERT_TRUE(Read());
  EXPECT_EQ(draft_.vocab.pad, std::nullopt);
  ASSERT_EQ(log.lines().size(), 1u);
  EXPECT_NE(log.lines()[0].find("\"nowhere\""), std::string::npos);
}

TEST_F(SpecialTokensTest, EmptyNamesAreNone) {
  config_ = {{"bos_token", ""}, {"eos_token", ""}, {"pad_token", ""}};
  map_ = {{"eos_token", {{"content", ""}}}};
  bos_id_ = 1;
  eos_ids_ = {2};
  const model::TestLog log;
  ASSERT_TRUE(Read());
  EXPECT_EQ(draft_.vocab.bos, 1);
  EXPECT_EQ(draft_.vocab.eos, 2);
  EXPECT_EQ(draft_.vocab.pad, std::nullopt);
  EXPECT_TRUE(log.lines().empty());
}

TEST_F(SpecialTokensTest, MoreTokensThatEnd) {
  config_ = {{"eos_token", "</s>"}};
  eos_ids_ = {2, 5, 4};
  ASSERT_TRUE(Read());
  EXPECT_EQ(draft_.vocab.eos, 2);
  EXPECT_EQ(draft_.vocab.eom, 5);
  EXPECT_EQ(draft_.vocab.eot, 4);
  eos_ids_ = {2, 5, 4, 3};
  const model::TestLog log;
  ASSERT_TRUE(Read());
  ASSERT_EQ(log.lines().size(), 1u);
  EXPECT_NE(log.lines()[0].find("3 is ignored"), std::string::npos);
}

TEST_F(SpecialTokensTest, WhatIsPutAroundTexts) {
  draft_.vocab.bos = 1;
  draft_.vocab.eos = 2;
  draft_.vocab.add_bos = true;
  ASSERT_TRUE(Read());
  EXPECT_TRUE(draft_.vocab.add_bos);
  EXPECT_FALSE(draft_.vocab.add_eos);
  draft_.first = 3;  // the file says: something else
  draft_.last = 2;
  ASSERT_TRUE(Read());
  EXPECT_FALSE(draft_.vocab.add_bos);
  EXPECT_TRUE(draft_.vocab.add_eos);
  config_ = {{"add_bos_token", true},
             {"add_eos_token", false},
             {"add_prefix_space", true}};
  ASSERT_TRUE(Read());
  EXPECT_TRUE(draft_.vocab.add_bos);
  EXPECT_FALSE(draft_.vocab.add_eos);
  EXPECT_TRUE(draft_.vocab.add_space_prefix);
  draft_.vocab.bos.reset();
  ASSERT_TRUE(Read());
  EXPECT_FALSE(draft_.vocab.add_bos);
}

TEST_F(SpecialTokensTest, AddedTokensNameReservedRows) {
  const Json added = {{"<tool>", 6u}, {"<new>", 7u}, {"<s>", 1u}};
  ASSERT_TRUE(
      AddFromAddedTokens(JsonFields::Of(added, "a.json").value(), draft_));
  EXPECT_EQ(draft_.tokens.Find("<tool>"), 6);
  EXPECT_EQ(draft_.tokens.Find("<reserved>"), std::nullopt);
  EXPECT_EQ(draft_.tokens.TypeOf(7), TokenType::kUserDefined);
  EXPECT_EQ(draft_.tokens.TypeOf(1), TokenType::kNormal);
  for (const Json& wrong :
       {Json{{"x", -1}}, Json{{"x", "1"}}, Json{{"a", 4u}}, Json{{"", 8u}}}) {
    ExpectBad(
        AddFromAddedTokens(JsonFields::Of(wrong, "a.json").value(), draft_),
        "a.json");
  }
}

// As many folders of Llama 2 add padding that nothing ever embeds.
TEST_F(SpecialTokensTest, TokensOutsideOfTheEmbeddingAreIgnored) {
  const model::TestLog log;
  const Json added = {{"<pad>", 9u}, {"<tool>", 8u}};
  ASSERT_TRUE(
      AddFromAddedTokens(JsonFields::Of(added, "a.json").value(), draft_));
  config_["added_tokens_decoder"] = {
      {"10", {{"content", "[PAD]"}, {"special", true}}}};
  ASSERT_TRUE(AddFromDecoder(Config(), true, draft_));
  EXPECT_EQ(draft_.tokens.Find("<tool>"), 8);
  EXPECT_EQ(draft_.tokens.Find("<pad>"), std::nullopt);
  EXPECT_EQ(draft_.tokens.Find("[PAD]"), std::nullopt);
  ASSERT_EQ(log.lines().size(), 2u);
  EXPECT_NE(log.lines()[0].find("\"<pad>\" has no row"), std::string::npos);
}

TEST_F(SpecialTokensTest, DecoderFillsInWhatMustNotBeContradicted) {
  config_["added_tokens_decoder"] = {
      {"1", {{"content", "<s>"}, {"special", true}}},
      {"3", {{"content", "other"}}},
      {"6", {{"content", "<new>"}}},
      {"7", {{"content", "</s>"}, {"special", true}}},
      {"8", {{"content", "<|end|>"}, {"special", true}, {"rstrip", true}}},
      {"9", {{"content", "<far>"}, {"lstrip", true}}}};
  const model::TestLog log;
  ASSERT_TRUE(AddFromDecoder(Config(), false, draft_));
  EXPECT_EQ(draft_.tokens.TypeOf(1), TokenType::kControl);
  EXPECT_EQ(draft_.tokens.Find("<|end|>"), 8);
  EXPECT_EQ(draft_.tokens.TypeOf(8), TokenType::kControl);
  EXPECT_EQ(draft_.tokens.Find("a"), 3);
  EXPECT_EQ(draft_.tokens.Find("<reserved>"), 6);
  EXPECT_EQ(draft_.tokens.Find("</s>"), 2);
  EXPECT_FALSE(draft_.tokens.IsNamed(7));
  EXPECT_EQ(draft_.vocab.rstrip, std::vector<text::TokenId>{8});
  EXPECT_TRUE(draft_.vocab.lstrip.empty());
  EXPECT_EQ(log.lines().size(), 4u);  // other, <new>, </s>, <far>
}

TEST_F(SpecialTokensTest, DecoderSaysWhichAreSpecial) {
  config_["added_tokens_decoder"] = {
      {"1", {{"content", "<s>"}, {"special", true}}},
      {"7", {{"content", "\u2581\u2581"}, {"special", false}}},
      {"8", {{"content", "<|end|>"}, {"special", true}}}};
  ASSERT_TRUE(AddFromDecoder(Config(), true, draft_));
  EXPECT_EQ(draft_.tokens.TypeOf(1), TokenType::kControl);
  EXPECT_EQ(draft_.tokens.Find("  "), 7);  // found before spaces are escaped
  EXPECT_EQ(draft_.tokens.TypeOf(7), TokenType::kUserDefined);
  EXPECT_EQ(draft_.tokens.TypeOf(8), TokenType::kControl);
}

TEST_F(SpecialTokensTest, WhatIsSpecialInOneFileIsSpecial) {
  const Json added = {{"<tool>", 7u}, {"<|im_end|>", 8u}};
  ASSERT_TRUE(
      AddFromAddedTokens(JsonFields::Of(added, "a.json").value(), draft_));
  EXPECT_EQ(draft_.tokens.TypeOf(8), TokenType::kUserDefined);
  config_["added_tokens_decoder"] = {
      {"7", {{"content", "<tool>"}, {"special", false}}},
      {"8", {{"content", "<|im_end|>"}, {"special", true}}}};
  ASSERT_TRUE(AddFromDecoder(Config(), true, draft_));
  EXPECT_EQ(draft_.tokens.TypeOf(7), TokenType::kUserDefined);
  EXPECT_EQ(draft_.tokens.TypeOf(8), TokenType::kControl);
}

TEST_F(SpecialTokensTest, TokenizerJsonNamesFreeRowsOnly) {
  const auto token = [](const char* text, int id, bool special) {
    return Json{{"content", text}, {"id", id}, {"special", special}};
  };
  Json json = {{"added_tokens",
                {token("<unk>", 0, true), token("<|im_end|>", 7, true),
                 token("<tool>", 8, false), token("other", 3, false),
                 token("a", 6, false), token("<far>", 9, true)}}};
  const model::TestLog log;
  ASSERT_TRUE(AddFromTokenizerJson({"t.json", json.dump()}, draft_));
  EXPECT_EQ(draft_.tokens.TypeOf(0), TokenType::kControl);
  EXPECT_EQ(draft_.tokens.Find("<|im_end|>"), 7);
  EXPECT_EQ(draft_.tokens.TypeOf(7), TokenType::kControl);
  EXPECT_EQ(draft_.tokens.TypeOf(8), TokenType::kUserDefined);
  EXPECT_EQ(draft_.tokens.Find("a"), 3);
  EXPECT_EQ(draft_.tokens.Find("other"), std::nullopt);
  EXPECT_EQ(log.lines().size(), 3u);  // other, a, <far>
  // What they contradict is there already.
  json["added_tokens"] = {token("<tool>", 7, false), token("<new>", 8, true)};
  ASSERT_TRUE(AddFromTokenizerJson({"t.json", json.dump()}, draft_));
  EXPECT_EQ(draft_.tokens.Find("<tool>"), 8);
  EXPECT_EQ(log.lines().size(), 5u);
  ExpectBad(AddFromTokenizerJson({"t.json", "{"}, draft_), "t.json");
  json["added_tokens"] = 3;
  ExpectBad(AddFromTokenizerJson({"t.json", json.dump()}, draft_),
            "added_tokens");
}

TEST_F(SpecialTokensTest, SenselessDecoders) {
  for (const Json& wrong : {Json(7), Json{{"x", {{"content", "y"}}}},
                            Json{{"-1", {{"content", "y"}}}}, Json{{"7", "y"}},
                            Json{{"7", {{"special", true}}}},
                            Json{{"7", {{"content", "y"}, {"special", 1}}}},
                            Json{{"7", {{"content", "a"}}}}}) {
    config_ = {{"added_tokens_decoder", wrong}};
    ExpectBad(AddFromDecoder(Config(), true, draft_), "c.json");
  }
}

}  // namespace
}  // namespace thermocline::importer

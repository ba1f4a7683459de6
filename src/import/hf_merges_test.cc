#include "import/hf_merges.h"

#include <gtest/gtest.h>

#include "text/small_vocabs.h"

namespace thermocline::importer {
namespace {

using text::TokenType;

VocabBuilder TokensOf(const std::vector<std::string>& texts) {
  VocabBuilder tokens(texts.size());
  uint64_t id = 0;
  for (const std::string& text : texts) {
    EXPECT_TRUE(tokens.Add("v", text, id++, TokenType::kNormal));
  }
  return tokens;
}

TEST(FindMergeTest, TheSpaceBetweenTwoTokens) {
  const VocabBuilder tokens = TokensOf({"a", "b", "ab", " ", "  ", "    "});
  const auto merge = FindMerge("a b", tokens);
  ASSERT_TRUE(merge.has_value());
  EXPECT_EQ(merge->text, "a b");
  EXPECT_EQ(merge->left, 0);
  EXPECT_EQ(merge->right, 1);
  EXPECT_EQ(merge->result, 2);
  for (const char* text : {"", " ", "a", "ab", "a  b", "b a", "a b ", " a b"}) {
    EXPECT_FALSE(FindMerge(text, tokens).has_value()) << text;
  }
}

// Tokens made of spaces leave more than one place to cut.
TEST(FindMergeTest, TokensThatHoldSpaces) {
  const VocabBuilder tokens = TokensOf({"a", "b", "ab", " ", "  ", "    "});
  EXPECT_EQ(FindMerge("   ", tokens)->result, 4);
  const auto wide = FindMerge("     ", tokens);
  ASSERT_TRUE(wide.has_value());
  EXPECT_EQ(wide->left, 4);
  EXPECT_EQ(wide->right, 4);
  EXPECT_EQ(wide->result, 5);
  EXPECT_FALSE(FindMerge(std::string(100'000, ' '), tokens).has_value());
}

TEST(ReadMergesTest, BothForms) {
  const VocabBuilder tokens = TokensOf({"a", "b", "ab"});
  for (const Json& merges :
       {Json::array({"a b"}), Json::array({Json::array({"a", "b"})})}) {
    const Json json = {{"merges", merges}};
    const auto fields = JsonFields::Of(json, "t.json").value();
    const auto read = ReadMerges(fields, tokens);
    ASSERT_TRUE(read.has_value()) << read.error().message;
    ASSERT_EQ(read->size(), 1u);
    EXPECT_EQ((*read)[0].text, "a b");
  }
}

TEST(ReadMergesTest, WhatIsNoMerge) {
  const VocabBuilder tokens = TokensOf({"a", "b", "ab"});
  const Json merges = Json::parse(R"(["ab", "a b c", " b", "a ", "", 7, ["a"],
      ["a", "b", "c"], ["a", 1], ["a ", "b"], ["", "b"], null, "b a", "a x",
      "x b"])");
  for (const Json& merge : merges) {
    const Json json = {{"merges", Json::array({merge})}};
    const auto read =
        ReadMerges(JsonFields::Of(json, "t.json").value(), tokens);
    ASSERT_FALSE(read.has_value()) << merge;
    EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
    EXPECT_NE(read.error().message.find("merges"), std::string::npos);
  }
  const Json json = {{"merges", "a b"}};
  EXPECT_FALSE(
      ReadMerges(JsonFields::Of(json, "t.json").value(), tokens).has_value());
}

// Also not where no text becomes the token, or only more than one word.
TEST(CheckMergesMakeWordsTest, EveryWordThatIsAToken) {
  text::Vocab vocab = text::SmallBpeVocab();
  const auto check = [&] {
    const auto tokenizer = text::Tokenizer::Create(vocab);
    EXPECT_TRUE(tokenizer.has_value());
    return CheckMergesMakeWords(**tokenizer, "t.json");
  };
  EXPECT_TRUE(check());
  text::AddToken(&vocab, "b\u0120c", TokenType::kNormal);
  text::AddToken(&vocab, "ca", TokenType::kControl);
  text::AddToken(&vocab, "\u4e16", TokenType::kNormal);  // stands for no bytes
  EXPECT_TRUE(check());
  text::AddToken(&vocab, "cab", TokenType::kNormal);
  const Status bad = check();
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, ErrorCode::kUnsupported);
  for (const char* part : {"t.json", "gpt-2", "\"cab\""}) {
    EXPECT_NE(bad.error().message.find(part), std::string::npos) << part;
  }
  // As a table of tiktoken has it: merges that lead there.
  vocab.merges.emplace_back("a b");
  vocab.merges.emplace_back("c ab");
  EXPECT_TRUE(check());
}

constexpr char kVocab[] = R"({"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3,
    "a": 4, "b": 5, "ab": 6})";
constexpr char kMerges[] = "#version: 0.2\na b\n";

Result<VocabDraft> Draft(const std::string& vocab, const std::string& merges,
                         const std::string& architecture = "opt") {
  return DraftOfMergesTxt({"vocab.json", vocab}, {"merges.txt", merges},
                          architecture, 8);
}

TEST(MergesTxtTest, OptsSpecialTokens) {
  const auto draft = Draft(kVocab, kMerges);
  ASSERT_TRUE(draft.has_value()) << draft.error().message;
  EXPECT_EQ(draft->vocab.kind, text::VocabKind::kBpe);
  EXPECT_EQ(draft->vocab.pre, "gpt-2");
  EXPECT_EQ(draft->vocab.merges, std::vector<std::string>{"a b"});
  EXPECT_EQ(draft->vocab.bos, 2);
  EXPECT_EQ(draft->vocab.eos, 2);
  EXPECT_TRUE(draft->vocab.add_bos);
  EXPECT_EQ(draft->tokens.TypeOf(3), TokenType::kControl);
  EXPECT_EQ(draft->tokens.TypeOf(4), TokenType::kNormal);
}

TEST(MergesTxtTest, TheArchitectureTellsThePreTokenizer) {
  EXPECT_EQ(Draft(kVocab, kMerges, "qwen2")->vocab.pre, "qwen2");
  EXPECT_EQ(Draft(kVocab, kMerges, "qwen2")->vocab.bos, std::nullopt);
  const auto draft = Draft(kVocab, kMerges, "falcon");
  ASSERT_FALSE(draft.has_value());
  EXPECT_EQ(draft.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(draft.error().message.find("\"falcon\""), std::string::npos);
}

TEST(MergesTxtTest, LineEndsAndEmptyLines) {
  for (const char* merges : {"a b", "\r\na b\r\n\r\n", "a b\n\n"}) {
    EXPECT_EQ(Draft(kVocab, merges)->vocab.merges,
              std::vector<std::string>{"a b"});
  }
}

TEST(MergesTxtTest, WrongLinesAreNumbered) {
  for (const auto& [merges, part] :
       {std::pair("#version: 0.2\na b\nx\n", "line 3"),
        std::pair("a b c\n", "line 1"), std::pair("a b\n#version\n", "line 2"),
        std::pair("b a", "\"b a\"")}) {
    const auto draft = Draft(kVocab, merges);
    ASSERT_FALSE(draft.has_value()) << merges;
    EXPECT_EQ(draft.error().code, ErrorCode::kCorrupt);
    EXPECT_NE(draft.error().message.find("merges.txt"), std::string::npos);
    EXPECT_NE(draft.error().message.find(part), std::string::npos)
        << draft.error().message;
  }
}

TEST(MergesTxtTest, SenselessVocabularies) {
  const std::string whole = kVocab;
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(Draft(whole.substr(0, size), kMerges).has_value()) << size;
  }
  for (const char* vocab : {"[]", R"({"a": -1})", R"({"a": "0"})",
                            R"({"a": 0, "b": 0})", R"({"a": 8})"}) {
    EXPECT_FALSE(Draft(vocab, "").has_value()) << vocab;
  }
}

}  // namespace
}  // namespace thermocline::importer

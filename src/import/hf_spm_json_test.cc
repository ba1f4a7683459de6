#include "import/hf_spm_json.h"

#include <gtest/gtest.h>

#include "model/test_log.h"
#include "text/tokenizer.h"

namespace thermocline::importer {
namespace {

using text::TokenType;
using text::Vocab;

constexpr char kSpace[] = "\u2581";

Json Prepend() { return {{"type", "Prepend"}, {"prepend", kSpace}}; }
Json Replace() {
  return {
      {"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpace}};
}
Json NormalizerSequence(const Json& steps) {
  return {{"type", "Sequence"}, {"normalizers", steps}};
}
Json Metaspace(const char* scheme) {
  return {{"type", "Metaspace"},
          {"replacement", kSpace},
          {"prepend_scheme", scheme},
          {"split", false}};
}

Json IdleCutter(bool inverts) {
  return {{"type", "Split"},
          {"pattern", {{"String", " "}}},
          {"behavior", "MergedWithPrevious"},
          {"invert", inverts}};
}

Result<Vocab> Steps(const Json& normalizer, const Json& pre_tokenizer) {
  const Json json = {{"normalizer", normalizer},
                     {"pre_tokenizer", pre_tokenizer}};
  Vocab vocab;
  TC_RETURN_IF_ERROR(
      ReadSpmSteps(JsonFields::Of(json, "t.json").value(), vocab));
  return vocab;
}

TEST(ReadSpmStepsTest, BothWaysToWriteSpaces) {
  const auto older = Steps(NormalizerSequence({Prepend(), Replace()}), nullptr);
  ASSERT_TRUE(older.has_value()) << older.error().message;
  EXPECT_EQ(older->kind, text::VocabKind::kSpm);
  EXPECT_TRUE(older->add_space_prefix);
  EXPECT_FALSE(Steps(Replace(), nullptr)->add_space_prefix);
  EXPECT_TRUE(Steps(nullptr, Metaspace("first"))->add_space_prefix);
  EXPECT_TRUE(Steps(nullptr, Metaspace("first"))->space_prefix_once);
  EXPECT_FALSE(Steps(nullptr, Metaspace("always"))->space_prefix_once);
  EXPECT_FALSE(older->space_prefix_once);
  EXPECT_TRUE(Steps(nullptr, Metaspace("always"))->add_space_prefix);
  EXPECT_FALSE(Steps(nullptr, Metaspace("never"))->add_space_prefix);
  const auto chars = Steps(Replace(), IdleCutter(false));
  ASSERT_TRUE(chars.has_value()) << chars.error().message;
  EXPECT_EQ(chars->kind, text::VocabKind::kCharBpe);
  EXPECT_FALSE(chars->add_space_prefix);
}

TEST(ReadSpmStepsTest, OtherStepsAreNamed) {
  Json cuts = Metaspace("first");
  cuts["split"] = true;
  Json other_replacement = Metaspace("first");
  other_replacement["replacement"] = "_";
  Json pattern = Replace();
  pattern["pattern"] = {{"Regex", " "}};
  for (const auto& [normalizer, pre_tokenizer, part] :
       {std::tuple(Json{{"type", "NFKC"}}, Json(), "\"NFKC\""),
        std::tuple(NormalizerSequence({Replace(), {{"type", "Lowercase"}}}),
                   Json(), "\"Lowercase\""),
        std::tuple(pattern, Json(), "\"Replace\""),
        std::tuple(Json{{"type", "Prepend"}, {"prepend", "x"}}, Json(),
                   "\"Prepend\""),
        std::tuple(Json(), Json{{"type", "ByteLevel"}}, "\"ByteLevel\""),
        std::tuple(Json(), cuts, "\"Metaspace\""),
        std::tuple(Json(), other_replacement, "\"Metaspace\""),
        std::tuple(Json(), Json(), "U+2581"),
        std::tuple(Prepend(), Json(), "U+2581"),
        std::tuple(Replace(), IdleCutter(true), "\"Split\""),
        std::tuple(Json(), IdleCutter(false), "\"Split\""),
        std::tuple(NormalizerSequence({Prepend(), Replace()}),
                   IdleCutter(false), "in front")}) {
    const auto vocab = Steps(normalizer, pre_tokenizer);
    ASSERT_FALSE(vocab.has_value()) << part;
    EXPECT_EQ(vocab.error().code, ErrorCode::kUnsupported);
    EXPECT_NE(vocab.error().message.find("t.json"), std::string::npos);
    EXPECT_NE(vocab.error().message.find(part), std::string::npos)
        << vocab.error().message;
  }
  for (const Json& wrong : {Json(7), Json::object(), NormalizerSequence("x")}) {
    EXPECT_EQ(Steps(wrong, nullptr).error().code, ErrorCode::kCorrupt);
  }
}

class SetScoresTest : public ::testing::Test {
 protected:
  // Tokens in the order of their ids, all normal.
  void AddTokens(const std::vector<std::string>& texts) {
    tokens_ = VocabBuilder(texts.size());
    uint64_t id = 0;
    for (const std::string& text : texts) {
      ASSERT_TRUE(tokens_.Add("t", text, id++, TokenType::kNormal));
    }
  }

  uint64_t Score(const std::vector<std::string>& merges) {
    std::vector<Merge> found;
    for (const std::string& merge : merges) {
      found.push_back(FindMerge(merge, tokens_).value());
    }
    return SetScores(found, tokens_);
  }

  std::vector<float> Scores() const {
    Vocab vocab;
    vocab.kind = text::VocabKind::kSpm;
    tokens_.FinishInto(vocab);
    return vocab.scores;
  }

  VocabBuilder tokens_ = VocabBuilder(0);
};

TEST_F(SetScoresTest, InTheOrderOfTheMerges) {
  AddTokens({"a", "b", "c", "ab", "bc", "abc"});
  EXPECT_EQ(Score({"b c", "a b", "a bc", "ab c"}), 0u);
  EXPECT_EQ(Scores(), (std::vector<float>{-3, -3, -3, -1, 0, -2}));
}

// SentencePiece gives runs of spaces one score; their merges are interleaved.
TEST_F(SetScoresTest, InterleavedMergesShareAScore) {
  const std::string s = kSpace;
  AddTokens({s, "a", s + "a", s + s, s + s + s});
  EXPECT_EQ(Score({s + " a", s + s + " " + s, s + " " + s + s, s + " " + s}),
            0u);
  EXPECT_EQ(Scores(), (std::vector<float>{-3, -3, 0, -2, -1}));
  EXPECT_EQ(Score({s + " a", s + s + " " + s, s + " " + s, s + " " + s + s}),
            0u);
  EXPECT_EQ(Scores(), (std::vector<float>{-2, -2, 0, -1, -1}));
}

TEST_F(SetScoresTest, MergesOfNoSentencePieceModelAreCounted) {
  AddTokens({"a", "b", "c", "ab", "bc", "abc"});
  EXPECT_EQ(Score({"b c", "a b", "a bc"}), 1u);          // ab c makes abc too
  EXPECT_EQ(Score({"b c", "a bc", "a b", "ab c"}), 1u);  // abc around ab
}

Json SpmModel() {
  return {{"unk_token", "<unk>"},
          {"merges", {std::string(kSpace) + " a", "a b"}}};
}

VocabDraft Draft() {
  VocabDraft draft = {VocabBuilder(8), {}, {}, {}};
  draft.vocab.kind = text::VocabKind::kSpm;
  uint64_t id = 0;
  for (const char* text :
       {"<unk>", "<0x41>", kSpace, "a", "b", "\u2581a", "ab"}) {
    EXPECT_TRUE(draft.tokens.Add("t", text, id++, TokenType::kNormal));
  }
  return draft;
}

TEST(CompleteCharVocabTest, TypesAndOrder) {
  VocabDraft draft = Draft();
  const Json model = SpmModel();
  const auto fields = JsonFields::Of(model, "t.json: model").value();
  ASSERT_TRUE(CompleteCharVocab(fields, draft));
  EXPECT_EQ(draft.vocab.unk, 0);
  EXPECT_EQ(draft.tokens.TypeOf(0), TokenType::kUnknown);
  EXPECT_EQ(draft.tokens.TypeOf(1), TokenType::kByte);
  Vocab vocab = draft.vocab;
  draft.tokens.FinishInto(vocab);
  vocab.add_space_prefix = true;
  const auto tokenizer = text::Tokenizer::Create(vocab);
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  EXPECT_EQ((*tokenizer)->Encode("ab", {false, false}).value(),
            (std::vector<text::TokenId>{5, 4}));
}

TEST(CompleteCharVocabTest, WarnsOfMergesThatAreNotSentencePieces) {
  const model::TestLog log;
  VocabDraft draft = Draft();
  Json model = SpmModel();
  ASSERT_TRUE(CompleteCharVocab(JsonFields::Of(model, "t").value(), draft));
  EXPECT_TRUE(log.lines().empty());
  model["merges"] = Json::array({"a b"});
  ASSERT_TRUE(CompleteCharVocab(JsonFields::Of(model, "t").value(), draft));
  ASSERT_EQ(log.lines().size(), 1u);
  EXPECT_NE(log.lines()[0].find("1 differ"), std::string::npos);
}

}  // namespace
}  // namespace thermocline::importer

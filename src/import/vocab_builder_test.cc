#include "import/vocab_builder.h"

#include <gtest/gtest.h>

namespace thermocline::importer {
namespace {

using text::TokenType;

constexpr char kPath[] = "vocab.json";

void ExpectBadToken(const Status& status, const std::string& part) {
  ASSERT_FALSE(status.has_value()) << part;
  EXPECT_EQ(status.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(status.error().message.find(kPath), std::string::npos);
  EXPECT_NE(status.error().message.find(part), std::string::npos)
      << status.error().message;
}

TEST(VocabBuilderTest, RowsWithoutATokenAreUnused) {
  VocabBuilder tokens(3);
  ASSERT_TRUE(tokens.Add(kPath, "b", 1, TokenType::kNormal, -2.0f));
  text::Vocab vocab;
  vocab.kind = text::VocabKind::kSpm;
  tokens.FinishInto(vocab);
  EXPECT_EQ(vocab.tokens, (std::vector<std::string>{"[PAD0]", "b", "[PAD2]"}));
  EXPECT_EQ(vocab.types, (std::vector{TokenType::kUnused, TokenType::kNormal,
                                      TokenType::kUnused}));
  EXPECT_EQ(vocab.scores, (std::vector<float>{-10000, -2, -10000}));
  vocab.kind = text::VocabKind::kBpe;
  tokens.FinishInto(vocab);
  EXPECT_TRUE(vocab.scores.empty());
}

TEST(VocabBuilderTest, IdsAndTextsBelongToEachOtherAlone) {
  VocabBuilder tokens(3);
  ASSERT_TRUE(tokens.Add(kPath, "a", 0, TokenType::kNormal));
  ASSERT_TRUE(tokens.Add(kPath, "a", 0, TokenType::kControl));
  EXPECT_EQ(tokens.TypeOf(0), TokenType::kControl);
  ExpectBadToken(tokens.Add(kPath, "a", 1, TokenType::kNormal), "\"a\"");
  ExpectBadToken(tokens.Add(kPath, "b", 0, TokenType::kNormal), "id 0");
  ExpectBadToken(tokens.Add(kPath, "", 1, TokenType::kNormal), "no text");
}

TEST(VocabBuilderTest, MoreTokensThanRows) {
  VocabBuilder tokens(3);
  ExpectBadToken(tokens.Add(kPath, "x", 3, TokenType::kNormal), "id 3");
  ExpectBadToken(tokens.Add(kPath, "x", 3, TokenType::kNormal), "3 rows");
}

TEST(VocabBuilderTest, IdsInJsonMayBeAnything) {
  VocabBuilder tokens(3);
  const Json good = 2u;
  ASSERT_TRUE(tokens.AddWithJsonId(kPath, "a", &good, TokenType::kNormal));
  EXPECT_EQ(tokens.Find("a"), 2);
  const Json bad = Json::parse(R"([-1, "1", 1.5, null, [1], true])");
  for (const Json& id : bad) {
    ExpectBadToken(tokens.AddWithJsonId(kPath, "b", &id, TokenType::kNormal),
                   "\"b\"");
  }
  ExpectBadToken(tokens.AddWithJsonId(kPath, "b", nullptr, TokenType::kNormal),
                 "no id");
}

TEST(VocabBuilderTest, ForgottenNamesAreFree) {
  VocabBuilder tokens(2);
  ASSERT_TRUE(tokens.Add(kPath, "<reserved>", 1, TokenType::kNormal));
  tokens.Forget(1);
  tokens.Forget(7);  // nobody's
  EXPECT_EQ(tokens.Find("<reserved>"), std::nullopt);
  ASSERT_TRUE(tokens.Add(kPath, "<tool>", 1, TokenType::kControl));
  EXPECT_EQ(tokens.Find("<tool>"), 1);
}

TEST(VocabBuilderTest, VisitsTokensById) {
  VocabBuilder tokens(4);
  ASSERT_TRUE(tokens.Add(kPath, "b", 3, TokenType::kNormal));
  ASSERT_TRUE(tokens.Add(kPath, "a", 1, TokenType::kNormal));
  std::string seen;
  tokens.ForEach([&](text::TokenId id, const std::string& text) {
    seen += fmt::format("{}={} ", id, text);
  });
  EXPECT_EQ(seen, "1=a 3=b ");
}

}  // namespace
}  // namespace thermocline::importer

#include "text/special_tokens.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"

namespace thermocline::text {
namespace {

std::vector<TokenId> AllIds(const std::vector<std::string>& texts) {
  std::vector<TokenId> ids;
  for (size_t i = 0; i < texts.size(); ++i) {
    ids.push_back(static_cast<TokenId>(i));
  }
  return ids;
}

// "token@begin" for each match.
std::string FindTokens(const std::vector<std::string>& texts,
                       std::string_view text) {
  const auto finder = SpecialTokenFinder::Create(texts, AllIds(texts));
  if (!finder) return finder.error().message;
  std::string found;
  for (const SpecialMatch& match : finder->Find(text)) {
    EXPECT_EQ(text.substr(match.begin, match.end - match.begin),
              texts[static_cast<size_t>(match.token)]);
    found += (found.empty() ? "" : " ") + std::to_string(match.token) + "@" +
             std::to_string(match.begin);
  }
  return found;
}

TEST(SpecialTokensTest, Finds) {
  EXPECT_EQ(FindTokens({"<s>", "</s>"}, "<s>a</s><s>"), "0@0 1@4 0@8");
  EXPECT_EQ(FindTokens({"<s>"}, ""), "");
  EXPECT_EQ(FindTokens({"<s>"}, "<s <s< s>"), "");
  EXPECT_EQ(FindTokens({"<s>"}, "<<s>>"), "0@1");
  EXPECT_EQ(FindTokens({}, "abc"), "");
  EXPECT_EQ(FindTokens({"", "a"}, "ba"), "1@1");
  EXPECT_EQ(FindTokens({"x", "x"}, "x"), "0@0");
}

TEST(SpecialTokensTest, LongestWinsWhereverItIs) {
  EXPECT_EQ(FindTokens({"a", "ab", "abc"}, "abcab a"), "2@0 1@3 0@6");
  EXPECT_EQ(FindTokens({"ab", "bcd"}, "abcd"), "1@1");
  EXPECT_EQ(FindTokens({"ab", "bc"}, "abc"), "0@0");
  EXPECT_EQ(FindTokens({"abcd", "bc", "cde"}, "abcde"), "0@0");
  EXPECT_EQ(FindTokens({"  ", "    "}, "       "), "1@0 0@4");
  EXPECT_EQ(FindTokens({"aba"}, "ababa"), "0@0");
}

// The definition: for each token, longest first, all places left to right.
std::string Reference(const std::vector<std::string>& texts,
                      const std::string& text) {
  std::vector<int> owner(text.size(), -1), begins(text.size(), 0);
  for (size_t length = text.size(); length > 0; --length) {
    for (size_t begin = 0; begin + length <= text.size(); ++begin) {
      bool is_free = true;
      for (size_t i = begin; i < begin + length; ++i) {
        is_free = is_free && owner[i] < 0;
      }
      if (!is_free) continue;
      for (size_t token = 0; token < texts.size(); ++token) {
        if (text.compare(begin, length, texts[token]) != 0) continue;
        for (size_t i = begin; i < begin + length; ++i) {
          owner[i] = static_cast<int>(token);
        }
        begins[begin] = 1;
        break;
      }
    }
  }
  std::string found;
  for (size_t i = 0; i < text.size(); ++i) {
    if (begins[i] == 0) continue;
    found += (found.empty() ? "" : " ") + std::to_string(owner[i]) + "@" +
             std::to_string(i);
  }
  return found;
}

TEST(SpecialTokensTest, EqualsTheDefinitionOnRandomTexts) {
  Random random(2);
  const auto random_text = [&random](uint64_t max_length) {
    std::string text(random.Below(max_length + 1), 'a');
    for (char& c : text) c = static_cast<char>('a' + random.Below(3));
    return text;
  };
  for (int round = 0; round < 500; ++round) {
    std::vector<std::string> texts(random.Below(8));
    for (std::string& text : texts) text = random_text(5);
    const std::string text = random_text(40);
    ASSERT_EQ(FindTokens(texts, text), Reference(texts, text)) << text;
  }
}

TEST(SpecialTokensTest, ManyNestedTokensOnALongText) {
  std::vector<std::string> texts;
  for (size_t n = 1; n <= 1000; ++n) texts.emplace_back(n, 'a');
  texts.push_back(std::string(1000, 'a') + "b");
  const auto finder = SpecialTokenFinder::Create(texts, AllIds(texts));
  ASSERT_TRUE(finder);
  const auto matches = finder->Find(std::string(1'000'500, 'a'));
  ASSERT_EQ(matches.size(), 1001u);
  EXPECT_EQ(matches.back().token, 499);
}

TEST(SpecialTokensTest, RefusesMoreTextThanAnyVocabularyHas) {
  std::vector<std::string> texts(16, std::string(64 << 10, 'x'));
  EXPECT_TRUE(SpecialTokenFinder::Create(texts, AllIds(texts)).has_value());
  texts.push_back("y");
  const auto finder = SpecialTokenFinder::Create(texts, AllIds(texts));
  ASSERT_FALSE(finder);
  EXPECT_EQ(finder.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(finder.error().message.find("MiB of control and user-defined"),
            std::string::npos)
      << finder.error().message;
}

}  // namespace
}  // namespace thermocline::text

#include "text/merge_symbols.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace thermocline::text {
namespace {

using Symbols = std::vector<MergeSymbols::Symbol>;

TEST(ParseMergeTest, CutsAtTheFirstSpaceThatIsNotFirst) {
  struct Case {
    const char *merge, *left, *right;
  };
  for (const auto& [merge, left, right] :
       {Case{"a b", "a", "b"}, Case{"ab cd ef", "ab", "cd ef"},
        Case{"  b", " ", "b"}, Case{"\n \n", "\n", "\n"}}) {
    const auto sides = ParseMerge(merge);
    ASSERT_TRUE(sides) << merge;
    EXPECT_EQ(sides->left, left);
    EXPECT_EQ(sides->right, right);
  }
  for (const char* bad : {"", " ", "ab", "a ", " b"}) {
    EXPECT_FALSE(ParseMerge(bad)) << bad;
  }
}

class MergeSymbolsTest : public ::testing::Test {
 protected:
  std::optional<TokenId> Find(std::string_view text) const {
    for (size_t i = 0; i < vocab_.tokens.size(); ++i) {
      if (vocab_.tokens[i] == text) return static_cast<TokenId>(i);
    }
    return std::nullopt;
  }
  MergeSymbols::FindToken Finder() const {
    return [this](std::string_view text) { return Find(text); };
  }

  Vocab vocab_ = {.tokens = {"a", "b", "c", "abc"}, .merges = {"a b", "ab c"}};
  MergeSymbols merges_;
};

TEST_F(MergeSymbolsTest, GoesThroughTextsThatAreNoTokens) {
  ASSERT_TRUE(merges_.Read(vocab_, Finder()));
  PairMerger merger;
  Symbols symbols = {0, 1, 2, 0, 1, 0};
  merges_.Apply(&symbols, &merger);
  ASSERT_EQ(symbols.size(), 3u);
  EXPECT_EQ(symbols[0], 3u);
  EXPECT_TRUE(merges_.IsToken(symbols[0]));
  EXPECT_FALSE(merges_.IsToken(symbols[1]));
  EXPECT_EQ(merges_.TextOf(symbols[1]), "ab");
  EXPECT_EQ(merges_.FindOther("ab"), symbols[1]);
  EXPECT_EQ(merges_.FindOther("abc"), std::nullopt);  // a token
}

TEST_F(MergeSymbolsTest, InternsATextOnce) {
  ASSERT_TRUE(merges_.Read(vocab_, Finder()));
  EXPECT_EQ(merges_.Intern("b", Finder()), 1u);
  const auto symbol = merges_.Intern("xyz", Finder());
  EXPECT_FALSE(merges_.IsToken(symbol));
  EXPECT_EQ(merges_.Intern("xyz", Finder()), symbol);
  EXPECT_EQ(merges_.TextOf(symbol), "xyz");
}

TEST_F(MergeSymbolsTest, NamesAMergeWithoutTwoSides) {
  vocab_.merges[1] = "abc";
  const Status read = merges_.Read(vocab_, Finder());
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(read.error().message.find("merge 1 "), std::string::npos);
}

}  // namespace
}  // namespace thermocline::text

#include "text/word_memory.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace thermocline::text {
namespace {

// The tokens of a word: its bytes.
class WordMemoryTest : public ::testing::Test {
 protected:
  // How often the word was encoded.
  int Append(std::string_view word) {
    int count = 0;
    memory_.Append(word, &tokens_, [&] {
      ++count;
      for (const char c : word) tokens_.push_back(c);
    });
    for (const char c : word) expected_.push_back(c);
    return count;
  }

  WordMemory memory_;
  std::vector<TokenId> tokens_, expected_;
};

TEST_F(WordMemoryTest, WordsAreEncodedOnce) {
  for (const int count : {1, 0, 0}) {
    EXPECT_EQ(Append("ab"), count);
    EXPECT_EQ(Append("abc"), count);
  }
  EXPECT_EQ(tokens_, expected_);
}

TEST_F(WordMemoryTest, ShortAndLongWordsAreNotKept) {
  const std::string longest(64, 'x'), longer(65, 'x');
  EXPECT_EQ(Append(longest), 1);
  EXPECT_EQ(Append(longest), 0);
  for (const std::string_view word :
       {std::string_view("a"), std::string_view(longer)}) {
    EXPECT_EQ(Append(word), 1);
    EXPECT_EQ(Append(word), 1);
  }
  EXPECT_EQ(tokens_, expected_);
}

TEST_F(WordMemoryTest, KeepsSoManyWords) {
  constexpr size_t kMost = size_t{1} << 16;
  std::string text;  // 8 bytes a word
  for (size_t i = 0; i <= kMost; ++i) text += std::to_string(10'000'000 + i);
  const auto word = [&](size_t i) {
    return std::string_view(text).substr(8 * i, 8);
  };
  for (size_t i = 0; i <= kMost; ++i) ASSERT_EQ(Append(word(i)), 1);
  EXPECT_EQ(Append(word(0)), 0);
  EXPECT_EQ(Append(word(kMost - 1)), 0);
  EXPECT_EQ(Append(word(kMost)), 1);
  EXPECT_EQ(tokens_, expected_);
}

}  // namespace
}  // namespace thermocline::text

#include "text/tiktoken.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/random.h"
#include "text/byte_text.h"
#include "text/tokenizer.h"

namespace thermocline::text {
namespace {

std::string Base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) {
      group = group << 8 |
              (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0u);
    }
    for (size_t k = 0; k < 4; ++k) {
      text +=
          i + k <= bytes.size() ? kDigits[(group >> (18 - 6 * k)) & 63] : '=';
    }
  }
  return text;
}

// The 256 bytes, then `longer`.
std::string MakeTable(const std::vector<std::string>& longer) {
  std::string file;
  for (int byte = 0; byte < 256; ++byte) {
    file += Base64(std::string(1, static_cast<char>(byte))) + " " +
            std::to_string(byte) + "\n";
  }
  for (size_t i = 0; i < longer.size(); ++i) {
    file += Base64(longer[i]) + " " + std::to_string(256 + i) + "\n";
  }
  return file;
}

std::unique_ptr<const Tokenizer> TokenizerOf(const TiktokenTable& table,
                                             const std::string& pre) {
  Vocab vocab;
  vocab.kind = VocabKind::kBpe;
  vocab.pre = pre;
  vocab.tokens = table.tokens;
  vocab.merges = table.merges;
  auto tokenizer = Tokenizer::Create(std::move(vocab));
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return tokenizer ? *std::move(tokenizer) : nullptr;
}

void ExpectCorrupt(std::string_view file) {
  const auto table = ParseTiktoken(file);
  ASSERT_FALSE(table) << file.substr(0, 100);
  EXPECT_EQ(table.error().code, ErrorCode::kCorrupt);
}

TEST(TiktokenTest, MergesFollowFromRanks) {
  const auto table =
      ParseTiktoken(MakeTable({"ab", "bc", "abc", " a", " abc", "\xc3\xa9"}));
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_EQ(table->tokens.size(), 262u);
  EXPECT_EQ(table->tokens['a'], "a");
  EXPECT_EQ(table->tokens[' '], "Ġ");
  EXPECT_EQ(table->tokens[260], "Ġabc");
  EXPECT_THAT(table->merges, ::testing::ElementsAre("a b", "b c", "ab c", "Ġ a",
                                                    "Ġ abc", "Ã ©"));
}

TEST(TiktokenTest, TokensThatNoStepMakesHaveNoMerge) {
  // "abcd" first merges b and c, and neither a bc d nor its sides are tokens.
  const auto table = ParseTiktoken(MakeTable({"bc", "ab", "abcd"}));
  ASSERT_TRUE(table);
  EXPECT_THAT(table->merges, ::testing::ElementsAre("b c", "a b"));
}

// "abcd" first merges b and c. Its sides come later.
TEST(TiktokenTest, TokensMadeThroughHigherRanks) {
  const auto table =
      ParseTiktoken(MakeTable({"bc", "abcd", "abc", "bcd", "abcde"}));
  ASSERT_TRUE(table);
  EXPECT_THAT(table->merges,
              ::testing::ElementsAre("b c", "abc d", "a bc", "bc d", "abcd e"));
  // Only of up to 512 bytes.
  for (const size_t num_b : {511, 512}) {
    std::vector<std::string> longer = {std::string(num_b, 'b') + "c"};
    for (size_t i = 1; i < num_b; ++i) {
      longer.push_back(std::string(i, 'b') + "c");
    }
    const auto grown = ParseTiktoken(MakeTable(longer));
    ASSERT_TRUE(grown);
    EXPECT_EQ(grown->merges[0],
              num_b == 511 ? "b " + std::string(510, 'b') + "c" : "b c");
  }
}

// What tiktoken does: the pair of tokens whose union has the lowest rank.
std::vector<TokenId> MergeByRank(const std::vector<std::string>& tokens,
                                 std::string_view text) {
  std::vector<std::string> parts;
  for (const char c : text) parts.emplace_back(1, c);
  const auto rank_of = [&](const std::string& bytes) {
    return std::ranges::find(tokens, bytes) - tokens.begin();
  };
  while (true) {
    size_t best = 0;
    auto best_rank = static_cast<ptrdiff_t>(tokens.size());
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto rank = rank_of(parts[i] + parts[i + 1]);
      if (rank < best_rank) std::tie(best, best_rank) = std::pair(i, rank);
    }
    if (best_rank == static_cast<ptrdiff_t>(tokens.size())) break;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
  std::vector<TokenId> ids;
  for (const std::string& part : parts) {
    ids.push_back(static_cast<TokenId>(rank_of(part)));
  }
  return ids;
}

TEST(TiktokenLongDraws, RandomVocabulariesMergeAsTiktokenDoes) {
  Random random(7);
  const auto random_text = [&](size_t least, size_t most) {
    std::string text(least + random.Next() % (most - least + 1), ' ');
    for (char& c : text) c = static_cast<char>('a' + random.Next() % 3);
    return text;
  };
  for (int round = 0; round < 30; ++round) {
    std::vector<std::string> longer;
    for (int i = 0; i < 40; ++i) {
      const std::string token = random_text(2, 6);
      if (std::ranges::count(longer, token) == 0) longer.push_back(token);
    }
    const auto table = ParseTiktoken(MakeTable(longer));
    ASSERT_TRUE(table);
    std::vector<std::string> tokens;
    for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, char(byte));
    tokens.insert(tokens.end(), longer.begin(), longer.end());
    const auto tokenizer = TokenizerOf(*table, "gpt-2");
    ASSERT_NE(tokenizer, nullptr);
    for (int i = 0; i < 50; ++i) {
      const std::string text = random_text(1, 30);
      EXPECT_EQ(*tokenizer->Encode(text, {}), MergeByRank(tokens, text))
          << text;
    }
  }
}

TEST(TiktokenTest, MakesAWorkingVocabulary) {
  const auto table = ParseTiktoken(MakeTable({"he", " t", " the"}));
  ASSERT_TRUE(table);
  const auto tokenizer = TokenizerOf(*table, "llama-bpe");
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(*tokenizer->Encode("the the", {}),
            (std::vector<TokenId>{'t', 256, 258}));
}

TEST(TiktokenTest, AcceptsCarriageReturnsAndEmptyLines) {
  std::string file = MakeTable({"ab"}) + "\n\r\n";
  file.insert(file.find('\n'), "\r");
  EXPECT_TRUE(ParseTiktoken(file));
  file = MakeTable({"ab"});
  file.pop_back();  // the last line need not end
  EXPECT_TRUE(ParseTiktoken(file));
}

TEST(TiktokenTest, MalformedLines) {
  const std::string good = MakeTable({});
  for (const char* bad : {
           "YWI=",      "YWI= ",     " 256",
           "YWI=  256", "YWI= 256 ", "YWI= -1",
           "YWI= +256", "YWI= 0x1",  "YWI= 99999999999999999999",
           "YW=I 256",  "YWI 256",   "YWJ= 256",
           "Y!I= 256",  "==== 256",  "= 256",
           "YWI= 257",  "YWI= 255",  "YWI= 4294967296",
           "YQ== 256",
       }) {
    ExpectCorrupt(good + bad + "\n");
  }
  ExpectCorrupt("");
  ExpectCorrupt("YWI= 0\n");
  const auto table = ParseTiktoken("IQ== 0\nnonsense\n");
  ASSERT_FALSE(table);
  EXPECT_NE(table.error().message.find("line 2"), std::string::npos);
}

TEST(TiktokenTest, TruncatedAtEveryByte) {
  const std::string file = MakeTable({"ab", "abc", " a", "zzz", "zz"});
  const auto whole = ParseTiktoken(file);
  ASSERT_TRUE(whole);
  for (size_t size = 0; size < file.size(); ++size) {
    const auto table = ParseTiktoken(std::string_view(file).substr(0, size));
    // Only a cut behind a whole line can go unnoticed.
    const bool is_line_end =
        size > 0 && (file[size - 1] == '\n' || file[size] == '\n');
    if (!is_line_end) {
      EXPECT_FALSE(table) << size;
    }
    if (table) {
      EXPECT_LE(table->tokens.size(), whole->tokens.size());
    }
  }
}

TEST(TiktokenTest, VeryLongTokenIsNoTrouble) {
  const auto table =
      ParseTiktoken(MakeTable({"aa", std::string(1'000'000, 'a')}));
  ASSERT_TRUE(table);
  EXPECT_THAT(table->merges, ::testing::ElementsAre("a a"));
}

}  // namespace
}  // namespace thermocline::text

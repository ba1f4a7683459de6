#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/random.h"
#include "text/small_vocabs.h"
#include "text/test_tokenizer.h"

namespace thermocline::text {
namespace {

using Ids = std::vector<TokenId>;

std::vector<std::unique_ptr<const Tokenizer>> SmallTokenizers() {
  std::vector<std::unique_ptr<const Tokenizer>> tokenizers;
  tokenizers.push_back(MakeTokenizer(SmallSpmVocab()));
  for (const char* pre :
       {"gpt-2", "llama-bpe", "falcon", "deepseek-llm", "deepseek-coder"}) {
    tokenizers.push_back(MakeTokenizer(SmallBpeVocab(pre)));
  }
  return tokenizers;
}

TEST(TokenizerTest, CreateChecksTheVocabulary) {
  Vocab vocab = SmallSpmVocab();
  vocab.bos = static_cast<TokenId>(vocab.tokens.size());
  const auto tokenizer = Tokenizer::Create(vocab);
  ASSERT_FALSE(tokenizer);
  EXPECT_EQ(tokenizer.error().code, ErrorCode::kCorrupt);
  EXPECT_FALSE(Tokenizer::Create(Vocab()));
}

TEST(TokenizerTest, DecodeTakesBackTheSpacesThatEncodePutIn) {
  const auto tokenizer = MakeTokenizer(SmallSpmVocab());
  for (const std::string text : {"the cat", " the", "  a", "", "<|tool|> a",
                                 "a<|tool|>a <|tool|>", "<s>a</s> a"}) {
    for (const bool parse_special : {true, false}) {
      const auto ids = tokenizer->Encode(text, {false, parse_special});
      EXPECT_EQ(tokenizer->Decode(*ids, true), text);
    }
  }
  EXPECT_EQ(tokenizer->Decode(*tokenizer->Encode("a", {}), true), "<s>a");
  EXPECT_EQ(tokenizer->Decode(*tokenizer->Encode("a", {}), false), "a");
  // An unknown character in the middle is not the start of a text.
  EXPECT_EQ(tokenizer->Decode(Ids{263, 0, 263}, false), "a a");
}

TEST(TokenizerTest, DecodeWithoutSpacePrefixKeepsSpaces) {
  Vocab vocab = SmallSpmVocab();
  vocab.add_space_prefix = false;
  const auto tokenizer = MakeTokenizer(vocab);
  EXPECT_EQ(*tokenizer->Encode("a", {}), (Ids{1, 275}));
  EXPECT_EQ(tokenizer->Decode(*tokenizer->Encode(" the", {}), false), " the");
  const auto bpe = MakeTokenizer(SmallBpeVocab());
  EXPECT_EQ(bpe->Decode(*bpe->Encode(" the", {}), false), " the");
}

TEST(TokenizerTest, EndsOfGeneration) {
  const auto bpe = MakeTokenizer(SmallBpeVocab());
  EXPECT_TRUE(bpe->IsEndOfGeneration(0));
  EXPECT_FALSE(bpe->IsEndOfGeneration(1));
  EXPECT_FALSE(bpe->IsEndOfGeneration(-1));
  EXPECT_FALSE(bpe->IsEndOfGeneration(bpe->num_tokens()));
  const auto spm = MakeTokenizer(SmallSpmVocab());
  EXPECT_TRUE(spm->IsEndOfGeneration(2));
  EXPECT_FALSE(spm->IsEndOfGeneration(1));
}

TEST(TokenizerTest, StreamedPiecesAreTheDecodedText) {
  const std::string text = "the é ☃ \U0001F600 in\xff\n";
  for (const auto& tokenizer : SmallTokenizers()) {
    const auto ids = tokenizer->Encode(text, {});
    std::string streamed;
    StreamDecoder decoder;
    for (const TokenId id : *ids) {
      streamed += decoder.Push(tokenizer->Piece(id, false));
    }
    streamed += decoder.Flush();
    if (tokenizer->vocab().add_space_prefix) streamed.erase(0, 1);
    EXPECT_EQ(streamed, text);
  }
}

TEST(TokenizerTest, ManyThreadsShareOne) {
  for (const auto& tokenizer : SmallTokenizers()) {
    std::vector<std::string> texts;
    std::vector<Ids> expected;
    Random random(8);
    for (int i = 0; i < 40; ++i) {
      texts.emplace_back(random.Below(200), ' ');
      for (char& c : texts.back()) c = static_cast<char>(random.Below(256));
      expected.push_back(*tokenizer->Encode(texts.back(), {true, true}));
    }
    std::vector<int> num_wrong(4, 0);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < num_wrong.size(); ++t) {
      threads.emplace_back([&, t] {
        for (size_t i = 0; i < texts.size(); ++i) {
          const size_t k = (i * 7 + t) % texts.size();
          const auto ids = tokenizer->Encode(texts[k], {true, true});
          num_wrong[t] += ids && *ids == expected[k] ? 0 : 1;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(num_wrong, std::vector<int>(4, 0));
  }
}

// A quadratic algorithm takes minutes for each of these, past the tests'
// timeout. Sanitizers slow things down tenfold and more, so there they get
// less.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr size_t kLong = 300'000;
#else
constexpr size_t kLong = 1'000'000;
#endif
#else
constexpr size_t kLong = 1'000'000;
#endif

struct LongText {
  std::string_view name, unit;  // repeated
  size_t num_bytes = kLong;
  std::string_view tail;

  std::string Make() const {
    std::string text;
    text.reserve(num_bytes + unit.size() + tail.size());
    while (text.size() < num_bytes) text += unit;
    return text.append(tail);
  }
};

class LongTextTest : public ::testing::TestWithParam<LongText> {};

TEST_P(LongTextTest, IsLinear) {
  const std::string text = GetParam().Make();
  // The second has the most stages, the third looks words up first.
  for (const Vocab& vocab : {SmallSpmVocab(), SmallBpeVocab("deepseek-llm"),
                             SmallBpeVocab("llama-bpe")}) {
    const auto tokenizer = MakeTokenizer(vocab);
    const auto ids = tokenizer->Encode(text, {false, true});
    ASSERT_TRUE(ids) << ids.error().message;
    EXPECT_TRUE(tokenizer->Decode(*ids, true) == text) << vocab.pre;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Texts, LongTextTest,
    ::testing::Values(LongText{"Spaces", " "}, LongText{"Letters", "a"},
                      LongText{"Digits", "7"}, LongText{"Newlines", "\n"},
                      LongText{"NewlinesAndSpaces", "\n "},
                      LongText{"SpacesThenLetter", " ", kLong, "a"},
                      LongText{"InvalidBytes", "\xff\xc3\x80", kLong / 2},
                      LongText{"AlmostSpecial", "<|tool|"}),
    [](const auto& param_info) { return std::string(param_info.param.name); });

}  // namespace
}  // namespace thermocline::text

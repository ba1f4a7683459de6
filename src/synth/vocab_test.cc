#include "synth/vocab.h"

#include <gtest/gtest.h>

#include <set>

#include "text/tokenizer.h"

namespace thermocline::synth {
namespace {

TEST(SynthVocabTest, TokensAreDistinct) {
  for (const size_t size : {kMinSynthVocab, size_t{32000}, size_t{65024}}) {
    const text::Vocab vocab = MakeSynthVocab(size);
    ASSERT_EQ(vocab.tokens.size(), size);
    ASSERT_EQ(vocab.scores.size(), size);
    ASSERT_EQ(vocab.types.size(), size);
    EXPECT_EQ(std::set(vocab.tokens.begin(), vocab.tokens.end()).size(), size);
  }
}

TEST(SynthVocabTest, EveryWordOfTheTextIsOneToken) {
  const text::Vocab vocab = MakeSynthVocab(32000);
  const WordCycle cycle(vocab, 3);
  const auto tokenizer = text::Tokenizer::Create(vocab);
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  std::string words = cycle.Text(vocab, 200);
  EXPECT_EQ(words.back(), '\n');
  words.pop_back();
  const auto tokens = (*tokenizer)->Encode(words, {.add_special = false});
  ASSERT_TRUE(tokens.has_value());
  ASSERT_EQ(tokens->size(), 200u);
  for (size_t k = 1; k < tokens->size(); ++k) {
    EXPECT_EQ(cycle.Before((*tokens)[k]), (*tokens)[k - 1]);
  }
}

TEST(SynthVocabTest, TextsRunThroughTopicsInStretches) {
  const text::Vocab vocab = MakeSynthVocab(32000);
  const WordCycle cycle(vocab, 3);
  const auto tokenizer = text::Tokenizer::Create(vocab);
  ASSERT_TRUE(tokenizer.has_value());
  std::string words = cycle.Text(vocab, 4 * kTopicWords);
  words.pop_back();
  const auto tokens = (*tokenizer)->Encode(words, {.add_special = false});
  ASSERT_TRUE(tokens.has_value());
  for (size_t i = 0; i < tokens->size(); ++i) {
    EXPECT_EQ(cycle.TopicOf((*tokens)[i], 3), i / kTopicWords % 3);
    EXPECT_EQ(cycle.TopicOf((*tokens)[i], 1), 0u);
  }
  EXPECT_EQ(cycle.TopicOf(1, 3), 0u);
  // Of few words every topic has some.
  const WordCycle few(MakeSynthVocab(kMinSynthVocab), 3);
  std::set<uint64_t> topics;
  for (text::TokenId id = 0; id < text::TokenId{kMinSynthVocab}; ++id) {
    topics.insert(few.TopicOf(id, 64));
  }
  EXPECT_EQ(topics.size(), 64u);
}

TEST(SynthVocabTest, TheCycleVisitsEveryWordOnce) {
  const text::Vocab vocab = MakeSynthVocab(2560);
  const WordCycle cycle(vocab, 8);
  EXPECT_GT(cycle.num_words(), 1000u);
  EXPECT_FALSE(cycle.Before(1).has_value());
  std::set<text::TokenId> seen;
  std::optional<text::TokenId> id = 2559;
  do {
    id = cycle.Before(*id);
    ASSERT_TRUE(id.has_value());
    seen.insert(*id);
  } while (*id != 2559 && seen.size() <= cycle.num_words());
  EXPECT_EQ(seen.size(), cycle.num_words());
  EXPECT_NE(WordCycle(vocab, 9).Before(2559), cycle.Before(2559));
}

}  // namespace
}  // namespace thermocline::synth

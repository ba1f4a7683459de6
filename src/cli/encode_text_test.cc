#include "cli/encode_text.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "cli/signals.h"
#include "cli/test_files.h"
#include "model/test_log.h"

namespace thermocline::cli {
namespace {

std::shared_ptr<const model::Model> OpenStories() {
  auto model = model::Model::Open(kStories);
  EXPECT_TRUE(model.has_value());
  return model.value_or(nullptr);
}

// A text of more than 16 chunks of 16 tokens.
std::string LongEnough() {
  std::string text;
  for (int i = 0; i < 400; ++i) text += "a dog ";
  return text;
}

TEST(EncodeTextTest, GivesTheTokens) {
  const auto model = OpenStories();
  const auto tokens = EncodeText(*model->tokenizer(), "Once", {});
  ASSERT_TRUE(tokens.has_value());
  EXPECT_EQ(model->tokenizer()->Decode(*tokens, false), "Once");
}

TEST(EncodePromptTest, PutsBosInFrontIfAsked) {
  const auto model = OpenStories();
  const text::Vocab& vocab = model->tokenizer()->vocab();
  ASSERT_TRUE(vocab.added_bos().has_value());
  const auto with = EncodePrompt(*model->tokenizer(), "Once", true);
  const auto without = EncodePrompt(*model->tokenizer(), "Once", false);
  ASSERT_TRUE(with.has_value() && without.has_value());
  ASSERT_FALSE(with->empty());
  EXPECT_EQ(with->front(), *vocab.bos);
  EXPECT_EQ(std::vector(with->begin() + 1, with->end()), *without);
  // A special token that is written out.
  const auto parsed = EncodePrompt(*model->tokenizer(), "<s>Once", false);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->front(), *vocab.bos);
}

TEST(EncodePromptTest, WarnsOfTwoBos) {
  const auto model = OpenStories();
  const auto warnings = [&](const char* prompt, bool with_special) {
    model::TestLog log;
    EXPECT_TRUE(EncodePrompt(*model->tokenizer(), prompt, with_special));
    return log.lines();
  };
  const auto lines = warnings("<s>Once", true);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("begins with \"<s>\""), std::string::npos);
  EXPECT_NE(lines[0].find("--no-bos"), std::string::npos);
  EXPECT_TRUE(warnings("<s>Once", false).empty());
  EXPECT_TRUE(warnings("Once<s>", true).empty());
}

TEST(EncodeCorpusTest, GivesTheChunks) {
  const auto model = OpenStories();
  const auto corpus = EncodeCorpus(*model, LongEnough(), "text", {.chunk = 16});
  ASSERT_TRUE(corpus.has_value()) << corpus.error().message;
  EXPECT_EQ(corpus->chunk_tokens(), 16u);
  EXPECT_FALSE(EncodeCorpus(*model, "short", "text", {.chunk = 16}));
}

// An interrupt that came before ends both, as one in the middle does.
TEST(EncodeTextDeathTest, AnInterruptEndsTheProcess) {
  const auto model = OpenStories();
  const std::string text = LongEnough();
  EXPECT_EXIT(
      {
        InstallSignalHandlers();
        std::raise(SIGINT);
        ::_exit(EncodeText(*model->tokenizer(), text, {}) ? 1 : 2);
      },
      ::testing::ExitedWithCode(130), "");
  EXPECT_EXIT(
      {
        InstallSignalHandlers();
        std::raise(SIGINT);
        ::_exit(EncodeCorpus(*model, text, "text", {.chunk = 16}) ? 1 : 2);
      },
      ::testing::ExitedWithCode(130), "");
}

}  // namespace
}  // namespace thermocline::cli

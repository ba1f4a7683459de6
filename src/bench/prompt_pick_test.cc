#include "bench/prompt_pick.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace thermocline::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Of 3, 8, 5 and 7 tokens.
std::vector<BenchPrompt> Prompts() {
  std::vector<BenchPrompt> prompts;
  for (const size_t num_tokens : {3, 8, 5, 7}) {
    BenchPrompt& prompt = prompts.emplace_back();
    prompt.line = 10 + prompts.size();
    for (size_t i = 0; i < num_tokens; ++i) {
      prompt.tokens.push_back(static_cast<text::TokenId>(100 * num_tokens + i));
    }
  }
  return prompts;
}

// "line:tokens" of what is picked, or the error's message.
std::vector<std::string> Pick(const PromptTest& test, int64_t context = 100) {
  const std::vector<BenchPrompt> prompts = Prompts();
  const auto picked = PickPrompts(prompts, test, context, "p.txt");
  if (!picked.has_value()) {
    EXPECT_EQ(picked.error().code, ErrorCode::kInvalidArgument);
    return {picked.error().message};
  }
  std::vector<std::string> out;
  for (const PickedPrompt& prompt : *picked) {
    // The first tokens, not some others.
    EXPECT_EQ(prompt.tokens.data(), prompts[prompt.line - 11].tokens.data());
    out.push_back(std::to_string(prompt.line) + ":" +
                  std::to_string(prompt.tokens.size()));
  }
  return out;
}

TEST(PickPromptsTest, TakesThoseThatAreLongEnough) {
  EXPECT_THAT(Pick({.num_prompt = 5}), ElementsAre("12:5", "13:5", "14:5"));
  EXPECT_THAT(Pick({.num_prompt = 8}), ElementsAre("12:8"));
  EXPECT_THAT(Pick({.num_prompt = 0}),
              ElementsAre("11:3", "12:8", "13:5", "14:7"));
  EXPECT_THAT(Pick({.num_prompt = 5, .num_generate = 95}),
              ElementsAre("12:5", "13:5", "14:5"));
  EXPECT_EQ((PromptTest{.num_prompt = 5, .num_generate = 9}.name()), "pp5+tg9");
  EXPECT_EQ((PromptTest{.num_generate = 9}.name()), "prompts+tg9");
}

TEST(PickPromptsTest, SaysWhatIsNotPossible) {
  EXPECT_THAT(Pick({.num_prompt = 9}),
              ElementsAre("p.txt: no prompt is long enough for test pp9+tg64: "
                          "the longest, in line 12, has 8 tokens"));
  EXPECT_THAT(Pick({.num_prompt = 5, .num_generate = 96}),
              ElementsAre(HasSubstr("needs 101 positions, but the model's "
                                    "context is 100")));
  EXPECT_THAT(Pick({.num_prompt = 5, .num_generate = 1}),
              ElementsAre(HasSubstr("at least 2 tokens")));
  // Whole: the first that does not fit is named.
  EXPECT_THAT(Pick({.num_generate = 94}),
              ElementsAre(HasSubstr("line 12: its 8 tokens and 94")));
  const std::vector<BenchPrompt> empty(1);
  EXPECT_THAT(PickPrompts(empty, {}, 100, "p.txt").error().message,
              HasSubstr("line 0: has no tokens"));
  EXPECT_THAT(PickPrompts({}, {}, 100, "p.txt").error().message,
              HasSubstr("p.txt: holds no prompt"));
}

}  // namespace
}  // namespace thermocline::bench

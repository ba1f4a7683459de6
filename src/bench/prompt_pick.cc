#include "bench/prompt_pick.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "bench/workload.h"

namespace thermocline::bench {
namespace {

// Whether the test itself makes sense with this model.
Status CheckTest(const PromptTest& test, int64_t context) {
  if (test.num_prompt < 0 || test.num_generate < 2) {
    return Fail(ErrorCode::kInvalidArgument,
                "bench: -pg {},{} is not possible: at least 2 tokens must be "
                "generated, since the first comes with the prompt",
                test.num_prompt, test.num_generate);
  }
  if (test.num_generate <= context &&
      test.num_prompt <= context - test.num_generate) {
    return {};
  }
  return Fail(ErrorCode::kInvalidArgument,
              "bench: test {} needs {} positions, but the model's context is "
              "{}; give smaller numbers to -pg",
              test.name(), test.num_prompt + test.num_generate, context);
}

// Whether a prompt can be run whole.
Status CheckWhole(const BenchPrompt& prompt, const PromptTest& test,
                  int64_t context, const std::string& name) {
  if (prompt.tokens.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "{}: line {}: has no tokens: the vocabulary lacks its text",
                name, prompt.line);
  }
  if (std::cmp_less_equal(prompt.tokens.size(), context - test.num_generate)) {
    return {};
  }
  return Fail(
      ErrorCode::kInvalidArgument,
      "{}: line {}: its {} and {} to generate are more than the model's "
      "context of {}; -pg P,{} cuts prompts to P tokens",
      name, prompt.line, Plural(prompt.tokens.size(), "token"),
      test.num_generate, context, test.num_generate);
}

tl::unexpected<Error> NoneIsLongEnough(std::span<const BenchPrompt> prompts,
                                       const PromptTest& test,
                                       const std::string& name) {
  if (prompts.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "{}: holds no prompt", name);
  }
  const auto longest = std::ranges::max_element(
      prompts, {}, [](const BenchPrompt& p) { return p.tokens.size(); });
  return Fail(ErrorCode::kInvalidArgument,
              "{}: no prompt is long enough for test {}: the longest, in line "
              "{}, has {}",
              name, test.name(), longest->line,
              Plural(longest->tokens.size(), "token"));
}

}  // namespace

std::string PromptTest::name() const {
  return num_prompt > 0 ? fmt::format("pp{}+tg{}", num_prompt, num_generate)
                        : fmt::format("prompts+tg{}", num_generate);
}

std::vector<BenchPrompt> PromptsOr(std::vector<BenchPrompt> prompts,
                                   const PromptTest& test, size_t vocab_size) {
  if (prompts.empty()) {
    prompts.push_back({.line = 1,
                       .tokens = FixedTokens(
                           std::max<int64_t>(test.num_prompt, 1), vocab_size)});
  }
  return prompts;
}

Result<std::vector<PickedPrompt>> PickPrompts(
    std::span<const BenchPrompt> prompts, const PromptTest& test,
    int64_t context, const std::string& name) {
  TC_RETURN_IF_ERROR(CheckTest(test, context));
  std::vector<PickedPrompt> picked;
  for (const BenchPrompt& prompt : prompts) {
    std::span<const text::TokenId> tokens = prompt.tokens;
    if (test.num_prompt == 0) {
      TC_RETURN_IF_ERROR(CheckWhole(prompt, test, context, name));
    } else if (std::cmp_less(tokens.size(), test.num_prompt)) {
      continue;
    } else {
      tokens = tokens.first(static_cast<size_t>(test.num_prompt));
    }
    picked.push_back({prompt.line, tokens});
  }
  if (picked.empty()) return NoneIsLongEnough(prompts, test, name);
  return picked;
}

}  // namespace thermocline::bench

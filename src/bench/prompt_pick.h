// Which prompts of a file a test runs, and how much of each.
#ifndef THERMOCLINE_BENCH_PROMPT_PICK_H_
#define THERMOCLINE_BENCH_PROMPT_PICK_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "text/vocab.h"

namespace thermocline::bench {

struct BenchPrompt {
  size_t line = 0;  // of its file, from 1
  std::vector<text::TokenId> tokens;
};

// Prompts of a length, and how many tokens the model makes of each.
struct PromptTest {
  int64_t num_prompt = 0;  // tokens; 0: each prompt whole
  int64_t num_generate = 64;

  // As llama-bench calls it: "pp512+tg64"; of whole prompts "prompts+tg64".
  std::string name() const;
};

// A prompt as a test takes it: the first tokens of one that lives elsewhere.
struct PickedPrompt {
  size_t line = 0;
  std::span<const text::TokenId> tokens;
};

// The prompts, or where there are none one of fixed ids, as long as the test's;
// of one at least, to begin with.
std::vector<BenchPrompt> PromptsOr(std::vector<BenchPrompt> prompts,
                                   const PromptTest& test, size_t vocab_size);

// Those of at least num_prompt tokens, cut to so many; or all, whole.
// kInvalidArgument: fewer than 2 tokens to generate (the first one comes with
// the prompt), no prompt that is long enough (the longest is named), a whole
// one without tokens, or more positions than `context`. `name` is the file's in
// messages.
Result<std::vector<PickedPrompt>> PickPrompts(
    std::span<const BenchPrompt> prompts, const PromptTest& test,
    int64_t context, const std::string& name);

}  // namespace thermocline::bench

#endif  // THERMOCLINE_BENCH_PROMPT_PICK_H_

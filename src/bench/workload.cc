#include "bench/workload.h"

#include <fmt/format.h>

namespace thermocline::bench {

std::string Workload::name() const {
  std::string name = is_prompt() ? fmt::format("pp{}", num_prompt)
                                 : fmt::format("tg{}", num_generate);
  if (depth > 0) name += fmt::format(" @ d{}", depth);
  return name;
}

Result<std::vector<Workload>> ListTests(const std::vector<int64_t>& prompts,
                                        const std::vector<int64_t>& generates,
                                        const std::vector<int64_t>& depths,
                                        int64_t context) {
  std::vector<Workload> tests;
  for (const int64_t depth : depths) {
    for (const int64_t n : prompts) {
      if (n != 0) tests.push_back({.num_prompt = n, .depth = depth});
    }
    for (const int64_t n : generates) {
      if (n != 0) tests.push_back({.num_generate = n, .depth = depth});
    }
  }
  if (tests.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "bench: nothing to run: -p and -n are both 0");
  }
  for (const Workload& test : tests) {
    if (test.length() < 0 || test.depth < 0) {
      return Fail(ErrorCode::kInvalidArgument,
                  "bench: a test of {} tokens at depth {} is not possible",
                  test.length(), test.depth);
    }
    if (test.length() > context || test.depth > context - test.length()) {
      return Fail(ErrorCode::kInvalidArgument,
                  "bench: test {} needs {} positions, but the model's context "
                  "is {}; give a smaller {}",
                  test.name(), test.depth + test.length(), context,
                  test.depth > 0     ? "-d"
                  : test.is_prompt() ? "-p"
                                     : "-n");
    }
  }
  return tests;
}

std::vector<text::TokenId> FixedTokens(int64_t count, size_t vocab_size,
                                       int64_t first) {
  // Prime to nearly every size, so that ids do not repeat early.
  constexpr int64_t kStride = 7919;
  std::vector<text::TokenId> tokens;
  for (int64_t i = first; i < first + count; ++i) {
    tokens.push_back(static_cast<text::TokenId>(
        (1 + i * kStride) % static_cast<int64_t>(vocab_size)));
  }
  return tokens;
}

}  // namespace thermocline::bench

// What is measured: a prompt or some generated tokens, at a depth of the cache.
#ifndef THERMOCLINE_BENCH_WORKLOAD_H_
#define THERMOCLINE_BENCH_WORKLOAD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "text/vocab.h"

namespace thermocline::bench {

struct Workload {
  int64_t num_prompt = 0;  // one of the two is 0
  int64_t num_generate = 0;
  int64_t depth = 0;  // positions filled before, not timed

  int64_t length() const { return num_prompt + num_generate; }
  bool is_prompt() const { return num_prompt > 0; }
  // How llama-bench calls it: "pp512", "tg32 @ d4096".
  std::string name() const;
};

// Every prompt length, then every generated one, at every depth; lengths of 0
// are none. kInvalidArgument: no tests, a negative number, or more positions
// than `context`.
Result<std::vector<Workload>> ListTests(const std::vector<int64_t>& prompts,
                                        const std::vector<int64_t>& generates,
                                        const std::vector<int64_t>& depths,
                                        int64_t context);

// The ids of positions `first` to `first` + `count` - 1, spread over the whole
// vocabulary. A position has the same id in every test, so that what one test
// has left in the cache is what the next one would put there.
std::vector<text::TokenId> FixedTokens(int64_t count, size_t vocab_size,
                                       int64_t first = 0);

}  // namespace thermocline::bench

#endif  // THERMOCLINE_BENCH_WORKLOAD_H_

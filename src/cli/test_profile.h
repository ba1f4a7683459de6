// For tests: a small profile whose figures can be counted by hand.
#ifndef THERMOCLINE_CLI_TEST_PROFILE_H_
#define THERMOCLINE_CLI_TEST_PROFILE_H_

#include <cstdint>
#include <vector>

#include "model/profile_file.h"

namespace thermocline::cli {

// Two layers of four neurons and four tokens: {0, 1}, {1}, {}, {1} in the one,
// all of them in the other.
inline model::ProfileFile SampleProfile() {
  neuron::ProfileBuilder builder(2, 4);
  builder.BeginSequence();
  for (const std::vector<uint32_t>& set :
       std::vector<std::vector<uint32_t>>{{0, 1}, {1}, {}, {1}}) {
    builder.Add(0, set);
    builder.Add(1, std::vector<uint32_t>{0, 1, 2, 3});
  }
  return {.model = {.architecture = "llama",
                    .name = "a name",
                    .num_layers = 2,
                    .width = 8,
                    .ffn_width = 4,
                    .num_experts = 0,
                    .hash = 0xab},
          .corpus = "text.txt",
          .context = 256,
          .profile = builder.profile()};
}

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_TEST_PROFILE_H_

// Files of prompts, one per line.
#ifndef THERMOCLINE_CLI_PROMPT_FILE_H_
#define THERMOCLINE_CLI_PROMPT_FILE_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace thermocline::cli {

struct Prompt {
  size_t line = 0;  // from 1
  std::string text;
};

// Each line of `text` that is not blank is a prompt, as it is; if the first one
// begins with "{", each is a JSON object whose prompt is the first there is of
// the strings "prompt", "text", "instruction" and "question", or of the list
// "turns" the first. A byte order mark at the beginning is dropped.
// kInvalidArgument: no prompt at all, or a line that is no
// such object; `name` and the line are named.
Result<std::vector<Prompt>> ParsePrompts(std::string_view text,
                                         const std::string& name);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_PROMPT_FILE_H_

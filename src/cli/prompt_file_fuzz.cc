// Any bytes are prompts, each with its line, or an error.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "cli/prompt_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto prompts = thermocline::cli::ParsePrompts(text, "prompts");
  if (!prompts.has_value()) return 0;
  TC_CHECK(!prompts->empty());
  size_t line = 0;
  for (const thermocline::cli::Prompt& prompt : *prompts) {
    TC_CHECK(prompt.line > line);
    line = prompt.line;
    TC_CHECK(!prompt.text.empty());
  }
  TC_CHECK(line <= 1 + static_cast<size_t>(std::ranges::count(text, '\n')));
  return 0;
}

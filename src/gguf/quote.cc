#include "gguf/quote.h"

#include <fmt/format.h>

namespace thermocline::gguf {

std::string Quote(std::string_view text) {
  constexpr size_t kMaxBytes = 80;
  if (text.size() <= kMaxBytes) return fmt::format("{:?}", text);
  return fmt::format("{:?}...", text.substr(0, kMaxBytes));
}

}  // namespace thermocline::gguf

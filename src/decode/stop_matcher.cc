#include "decode/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace thermocline::decode {

StopMatcher::StopMatcher(std::vector<std::string> stop_strings)
    : stop_strings_(std::move(stop_strings)) {
  std::erase(stop_strings_, "");
}

std::string StopMatcher::Push(std::string_view piece) {
  if (matched_) return {};
  pending_ += piece;
  size_t first_end = std::string::npos;
  size_t start = 0;
  for (const std::string& stop : stop_strings_) {
    const size_t at = pending_.find(stop);
    if (at == std::string::npos) continue;
    const size_t end = at + stop.size();
    if (end < first_end || (end == first_end && at < start)) {
      first_end = end;
      start = at;
    }
  }
  matched_ = first_end != std::string::npos;
  const size_t num_certain = matched_ ? start : FirstPossibleStart();
  std::string certain = pending_.substr(0, num_certain);
  pending_.erase(0, matched_ ? pending_.size() : num_certain);
  return certain;
}

std::string StopMatcher::Flush() { return std::exchange(pending_, {}); }

size_t StopMatcher::FirstPossibleStart() const {
  const std::string_view text = pending_;
  size_t first = text.size();
  for (const std::string& stop : stop_strings_) {
    const size_t longest = std::min(stop.size() - 1, text.size());
    for (size_t length = longest; length > 0; --length) {
      if (text.substr(text.size() - length) ==
          std::string_view(stop).substr(0, length)) {
        first = std::min(first, text.size() - length);
        break;
      }
    }
  }
  return first;
}

}  // namespace thermocline::decode

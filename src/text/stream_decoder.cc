#include <utility>

#include "text/tokenizer.h"
#include "text/utf8.h"

namespace thermocline::text {

std::string StreamDecoder::Push(std::string_view piece) {
  pending_ += piece;
  const size_t num_held = IncompleteUtf8Suffix(pending_);
  std::string ready = pending_.substr(0, pending_.size() - num_held);
  pending_.erase(0, ready.size());
  return ready;
}

std::string StreamDecoder::Flush() { return std::exchange(pending_, {}); }

}  // namespace thermocline::text

// Finds stop strings in text that arrives in pieces.
#ifndef THERMOCLINE_DECODE_STOP_MATCHER_H_
#define THERMOCLINE_DECODE_STOP_MATCHER_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace thermocline::decode {

// The stop string that is complete first wins; of several that end at the same
// byte, the longest: so the result does not depend on how the text was cut.
class StopMatcher {
 public:
  // Empty strings never match.
  explicit StopMatcher(std::vector<std::string> stop_strings);

  // Appends `piece`; returns the text that is certain to come before any
  // match. Once matched() is true, it returns nothing more.
  std::string Push(std::string_view piece);

  // What is held back, when no more text comes.
  std::string Flush();

  bool matched() const { return matched_; }

 private:
  // The first byte of `pending_` that a stop string still to be completed
  // could begin with; its size if none.
  size_t FirstPossibleStart() const;

  std::vector<std::string> stop_strings_;
  std::string pending_;
  bool matched_ = false;
};

}  // namespace thermocline::decode

#endif  // THERMOCLINE_DECODE_STOP_MATCHER_H_

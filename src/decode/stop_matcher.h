// Finds stop strings in text that arrives in pieces.
#ifndef THERMOCLINE_DECODE_STOP_MATCHER_H_
#define THERMOCLINE_DECODE_STOP_MATCHER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace thermocline::decode {

// The stop string that is complete first wins; of several that end at the same
// byte, the longest: so the result does not depend on how the text was cut.
// The text is looked at twice: as it is shown, and with the hidden pieces (the
// texts of control tokens) in their places. A match has all of a hidden piece
// or none: "<" does not stop at "<|end|>".
class StopMatcher {
 public:
  // Empty strings never match.
  explicit StopMatcher(std::vector<std::string> stop_strings);

  // Appends `piece`; returns the text that is certain to come before any
  // match, without hidden pieces. Once matched() is true, it returns nothing
  // more.
  std::string Push(std::string_view piece, bool is_hidden = false);

  // What is held back, when no more text comes.
  std::string Flush();

  bool matched() const { return matched_; }

  // How many of the bytes pushed come before the match, hidden ones too.
  // Requires matched().
  uint64_t match_begin() const { return num_past_; }

 private:
  enum class Kind : uint8_t { kShown, kHidden, kHiddenFirst };
  // The text without hidden pieces, or with them.
  struct View {
    std::string text;
    std::vector<size_t> places;  // in pending_, of each byte and of the end
  };
  struct Match {
    size_t begin, end;  // in pending_
    bool IsBetterThan(const Match& other) const {
      return end < other.end || (end == other.end && begin < other.begin);
    }
  };

  View ViewOf(bool with_hidden) const;
  // Whether a match may begin or end in front of that byte of pending_.
  bool IsBorder(size_t place) const;
  // The first match of `stop`.
  std::optional<Match> Find(const View& view, std::string_view stop) const;
  // The first byte of `pending_` that a stop string still to be completed
  // could begin with; its size if none.
  size_t FirstPossibleStart(const View& view) const;
  // Removes the first `num_bytes`; returns the shown ones of them.
  std::string Take(size_t num_bytes);

  std::vector<std::string> stop_strings_;
  std::string pending_;
  std::vector<Kind> kinds_;  // of the bytes of pending_
  uint64_t num_past_ = 0;    // bytes before pending_
  bool matched_ = false;
};

}  // namespace thermocline::decode

#endif  // THERMOCLINE_DECODE_STOP_MATCHER_H_

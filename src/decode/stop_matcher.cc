#include "decode/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace thermocline::decode {

StopMatcher::StopMatcher(std::vector<std::string> stop_strings)
    : stop_strings_(std::move(stop_strings)) {
  std::erase(stop_strings_, "");
}

std::string StopMatcher::Push(std::string_view piece, bool is_hidden) {
  if (matched_ || piece.empty()) return {};
  pending_ += piece;
  kinds_.resize(pending_.size(), is_hidden ? Kind::kHidden : Kind::kShown);
  if (is_hidden) kinds_[pending_.size() - piece.size()] = Kind::kHiddenFirst;
  const bool has_hidden = std::ranges::any_of(
      kinds_, [](Kind kind) { return kind != Kind::kShown; });
  std::optional<Match> best;
  size_t num_certain = pending_.size();
  for (const bool with_hidden : {true, false}) {
    if (!with_hidden && !has_hidden) break;  // the same
    const View view = ViewOf(with_hidden);
    for (const std::string& stop : stop_strings_) {
      const std::optional<Match> match = Find(view, stop);
      if (match && (!best || match->IsBetterThan(*best))) best = match;
    }
    num_certain = std::min(num_certain, FirstPossibleStart(view));
  }
  if (!best) return Take(num_certain);
  matched_ = true;
  std::string certain = Take(best->begin);
  pending_.clear();
  kinds_.clear();
  return certain;
}

std::string StopMatcher::Flush() { return Take(pending_.size()); }

StopMatcher::View StopMatcher::ViewOf(bool with_hidden) const {
  View view;
  for (size_t i = 0; i < pending_.size(); ++i) {
    if (!with_hidden && kinds_[i] != Kind::kShown) continue;
    view.text += pending_[i];
    view.places.push_back(i);
  }
  view.places.push_back(pending_.size());
  return view;
}

bool StopMatcher::IsBorder(size_t place) const {
  return place == kinds_.size() || kinds_[place] != Kind::kHidden;
}

std::optional<StopMatcher::Match> StopMatcher::Find(
    const View& view, std::string_view stop) const {
  for (size_t at = view.text.find(stop); at != std::string::npos;
       at = view.text.find(stop, at + 1)) {
    const size_t begin = view.places[at];
    const size_t end = view.places[at + stop.size() - 1] + 1;
    if (IsBorder(begin) && IsBorder(end)) return Match{begin, end};
  }
  return std::nullopt;
}

size_t StopMatcher::FirstPossibleStart(const View& view) const {
  const std::string_view text = view.text;
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
  return view.places[first];
}

std::string StopMatcher::Take(size_t num_bytes) {
  std::string shown;
  for (size_t i = 0; i < num_bytes; ++i) {
    if (kinds_[i] == Kind::kShown) shown += pending_[i];
  }
  pending_.erase(0, num_bytes);
  kinds_.erase(kinds_.begin(),
               kinds_.begin() + static_cast<ptrdiff_t>(num_bytes));
  num_past_ += num_bytes;
  return shown;
}

}  // namespace thermocline::decode

#include "decode/reasoning_splitter.h"

#include <algorithm>
#include <utility>

#include "text/utf8.h"

namespace thermocline::decode {
namespace {

// How many bytes at the end of `text` may be the beginning of `mark`.
size_t BytesOfPart(std::string_view text, std::string_view mark) {
  for (size_t n = std::min(text.size(), mark.size() - 1); n > 0; --n) {
    if (mark.starts_with(text.substr(text.size() - n))) return n;
  }
  return 0;
}

}  // namespace

ReasoningSplitter::ReasoningSplitter(const text::ReasoningMarks& marks,
                                     bool is_open)
    : marks_(marks),
      state_(is_open ? State::kThoughts : State::kBetween),
      begins_thoughts_(is_open) {}

ReasoningSplitter::Split ReasoningSplitter::Push(std::string_view piece) {
  pending_ += piece;
  Split split;
  while (true) {
    const bool goes_on = state_ == State::kBetween    ? TakeBetween()
                         : state_ == State::kThoughts ? TakeThoughts(&split)
                                                      : false;
    if (!goes_on) break;
  }
  if (state_ == State::kAnswer) split.content = std::exchange(pending_, {});
  return split;
}

ReasoningSplitter::Split ReasoningSplitter::Flush() {
  Split split;
  const std::string rest = std::exchange(pending_, {});
  if (state_ == State::kThoughts) {
    AddThoughts(text::WithoutTrailingSpace(rest), &split);
  } else {
    split.content = rest;
  }
  return split;
}

bool ReasoningSplitter::TakeBetween() {
  pending_.erase(0, pending_.size() - text::SkipWhiteSpace(pending_).size());
  if (pending_.empty()) return false;
  bool may_be_mark = false;
  for (const std::string_view mark : {marks_.begin, marks_.between[0],
                                      marks_.between[1], marks_.between[2]}) {
    if (mark.empty()) continue;
    if (pending_.starts_with(mark)) {
      pending_.erase(0, mark.size());
      if (mark == marks_.begin) {
        state_ = State::kThoughts;
        begins_thoughts_ = true;
      }
      return true;
    }
    may_be_mark = may_be_mark || mark.starts_with(pending_);
  }
  if (!may_be_mark) state_ = State::kAnswer;
  return false;
}

bool ReasoningSplitter::TakeThoughts(Split* split) {
  const size_t end = pending_.find(marks_.end);
  const bool is_over = end != std::string::npos;
  const size_t num_certain =
      is_over ? end : pending_.size() - BytesOfPart(pending_, marks_.end);
  const std::string_view thoughts = text::WithoutTrailingSpace(
      std::string_view(pending_).substr(0, num_certain));
  AddThoughts(thoughts, split);
  pending_.erase(0, is_over ? end + marks_.end.size() : thoughts.size());
  if (is_over) state_ = State::kBetween;
  return is_over;
}

void ReasoningSplitter::AddThoughts(std::string_view text, Split* split) {
  if (begins_thoughts_) text = text::SkipWhiteSpace(text);
  if (text.empty()) return;
  if (begins_thoughts_ && has_thoughts_) split->reasoning += "\n\n";
  split->reasoning += text;
  begins_thoughts_ = false;
  has_thoughts_ = true;
}

}  // namespace thermocline::decode

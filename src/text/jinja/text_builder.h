// Texts that know, byte by byte, what was made of Variables.content.
#ifndef THERMOCLINE_TEXT_JINJA_TEXT_BUILDER_H_
#define THERMOCLINE_TEXT_JINJA_TEXT_BUILDER_H_

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"
#include "text/tokenizer.h"

namespace thermocline::text::jinja {

// Makes a text of pieces, at the end of a Buffer. What is appended to may lie
// in the same Buffer as what is appended.
class TextBuilder {
 public:
  explicit TextBuilder(Runtime& runtime);
  // Goes on behind what the buffer holds.
  TextBuilder(Runtime& runtime, Buffer* buffer);

  void Append(std::string_view bytes, bool is_content);
  void Append(const Value& text);  // a text, in whole
  // A text's bytes from `begin` on. Requires begin + size <= text.size.
  void AppendSlice(const Value& text, size_t begin, size_t size);
  size_t size() const { return buffer_->bytes.size() - begin_; }
  Value Finish() const;
  // What was built, as one piece that has one maker.
  Value FinishAs(bool is_content);

 private:
  Runtime& runtime_;
  Buffer* buffer_;
  size_t begin_;
};

// The run that holds the byte at `position`; end(): none.
inline std::vector<Run>::const_iterator FirstRun(const std::vector<Run>& runs,
                                                 size_t position) {
  return std::upper_bound(
      runs.begin(), runs.end(), position,
      [](size_t at, const Run& run) { return at < run.end; });
}

// Calls fn(std::string_view, bool is_content) for each stretch of a text that
// has one maker. The bytes are valid until something is made.
template <typename Fn>
void ForEachRun(const Value& text, size_t begin, size_t size, Fn&& fn) {
  if (text.buffer == nullptr) {
    fn(std::string_view(text.data + begin, size), text.is_content);
    return;
  }
  const std::vector<Run>& runs = text.buffer->runs;
  size_t at = text.offset + begin;
  const size_t end = at + size;
  for (auto run = FirstRun(runs, at); at < end; ++run) {
    const size_t piece_end = std::min(end, run->end);
    const bool is_content = run->is_content;
    fn(std::string_view(text.buffer->bytes).substr(at, piece_end - at),
       is_content);
    at = piece_end;
  }
}

template <typename Fn>
void ForEachRun(const Value& text, Fn&& fn) {
  ForEachRun(text, 0, text.size, fn);
}

// Whether any byte of a text, or a value of another kind itself, comes from
// content. Does not look into lists.
bool HasContent(const Value& value);

// The part of a text. Nothing is copied.
Value Slice(const Value& text, size_t begin, size_t size);

// a's bytes, then b's. In place where a ends its buffer.
Value Concat(Runtime& runtime, const Value& a, const Value& b);

// A text that is copied.
Value MakeText(Runtime& runtime, std::string_view bytes, bool is_content);

// A buffer's bytes as parts, neighbours of which differ; none is empty.
std::vector<TextPart> PartsOf(const Buffer& buffer);

}  // namespace thermocline::text::jinja

#endif  // THERMOCLINE_TEXT_JINJA_TEXT_BUILDER_H_

#include "text/jinja/text_builder.h"

#include <string>
#include <utility>

namespace thermocline::text::jinja {

TextBuilder::TextBuilder(Runtime& runtime)
    : TextBuilder(runtime, runtime.NewBuffer()) {}

TextBuilder::TextBuilder(Runtime& runtime, Buffer* buffer)
    : runtime_(runtime), buffer_(buffer), begin_(buffer->bytes.size()) {}

void TextBuilder::Append(std::string_view bytes, bool is_content) {
  if (bytes.empty()) return;
  std::vector<Run>& runs = buffer_->runs;
  const bool is_new = runs.empty() || runs.back().is_content != is_content;
  if (!runtime_.Charge(bytes.size() + (is_new ? sizeof(Run) : 0))) return;
  buffer_->bytes.append(bytes);
  if (is_new) runs.push_back({0, is_content});
  runs.back().end = buffer_->bytes.size();
}

void TextBuilder::Append(const Value& text) { AppendSlice(text, 0, text.size); }

void TextBuilder::AppendSlice(const Value& text, size_t begin, size_t size) {
  ForEachRun(text, begin, size, [this](std::string_view run, bool is_content) {
    Append(run, is_content);
  });
}

Value TextBuilder::Finish() const {
  Value value{.kind = Kind::kText};
  value.size = static_cast<uint32_t>(size());
  value.offset = begin_;
  value.buffer = buffer_;
  return value;
}

Value TextBuilder::FinishAs(bool is_content) {
  if (begin_ == 0) {
    buffer_->runs.clear();
    if (size() > 0) buffer_->runs.push_back({size(), is_content});
  }
  return Finish();
}

bool HasContent(const Value& value) {
  if (!IsText(value) || value.buffer == nullptr) return value.is_content;
  if (value.size == 0) return false;
  const std::vector<Run>& runs = value.buffer->runs;
  const auto first = FirstRun(runs, value.offset);
  // Of two neighbours one is content.
  return first->is_content || first->end < value.offset + value.size;
}

Value Slice(const Value& text, size_t begin, size_t size) {
  Value slice = text;
  slice.size = static_cast<uint32_t>(size);
  if (text.buffer == nullptr) {
    if (begin > 0) slice.data += begin;
  } else {
    slice.offset += begin;
  }
  return slice;
}

Value Concat(Runtime& runtime, const Value& a, const Value& b) {
  if (a.size == 0) return b;
  if (b.size == 0) return a;
  if (a.buffer != nullptr && a.offset + a.size == a.buffer->bytes.size()) {
    TextBuilder builder(runtime, a.buffer);
    builder.Append(b);
    Value whole = a;
    whole.size = static_cast<uint32_t>(a.buffer->bytes.size() - a.offset);
    return whole;
  }
  TextBuilder builder(runtime);
  builder.Append(a);
  builder.Append(b);
  return builder.Finish();
}

Value MakeText(Runtime& runtime, std::string_view bytes, bool is_content) {
  TextBuilder builder(runtime);
  builder.Append(bytes, is_content);
  return builder.Finish();
}

std::vector<TextPart> PartsOf(const Buffer& buffer) {
  std::vector<TextPart> parts;
  size_t begin = 0;
  for (const Run& run : buffer.runs) {
    parts.push_back(
        {buffer.bytes.substr(begin, run.end - begin), !run.is_content});
    begin = run.end;
  }
  return parts;
}

}  // namespace thermocline::text::jinja

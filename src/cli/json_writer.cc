#include "cli/json_writer.h"

#include <fmt/format.h>

#include <cmath>

#include "base/check.h"

namespace thermocline::cli {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

// Bytes of the valid UTF-8 character at the start of `text`, 0 if there is
// none (overlong forms, surrogates and what lies past U+10FFFF are not valid).
size_t ValidCharacterBytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xc2 && lead < 0xe0   ? 2
                        : lead >= 0xe0 && lead < 0xf0 ? 3
                        : lead >= 0xf0 && lead < 0xf5 ? 4
                                                      : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  if ((lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) > 0x9f) ||
      (lead == 0xf0 && byte(1) < 0x90) || (lead == 0xf4 && byte(1) > 0x8f)) {
    return 0;
  }
  return length;
}

std::string Quote(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const size_t length = ValidCharacterBytes(text);
    const char c = text.front();
    if (length == 0) {
      out += kReplacement;
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<uint8_t>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out + "\"";
}

}  // namespace

void JsonWriter::Key(std::string_view key) {
  TC_CHECK(!after_key_ && !has_items_.empty());
  BeforeValue();
  out_ += Quote(key) + ": ";
  after_key_ = true;
}

void JsonWriter::String(std::string_view text) { Raw(Quote(text)); }
void JsonWriter::Int(int64_t value) { Raw(fmt::format("{}", value)); }
void JsonWriter::Uint(uint64_t value) { Raw(fmt::format("{}", value)); }
void JsonWriter::Bool(bool value) { Raw(value ? "true" : "false"); }
void JsonWriter::Null() { Raw("null"); }

void JsonWriter::Float(float value) {
  if (std::isfinite(value)) {
    Raw(fmt::format("{}", value));
  } else {
    Null();
  }
}

void JsonWriter::OptionalInt(std::optional<int64_t> value) {
  if (value.has_value()) {
    Int(*value);
  } else {
    Null();
  }
}

void JsonWriter::OptionalString(const std::optional<std::string>& text) {
  if (text.has_value()) {
    String(*text);
  } else {
    Null();
  }
}

std::string JsonWriter::text() const {
  TC_CHECK(has_items_.empty() && !after_key_);
  return out_ + "\n";
}

void JsonWriter::Begin(char bracket) {
  BeforeValue();
  out_ += bracket;
  has_items_.push_back(false);
}

void JsonWriter::End(char bracket) {
  TC_CHECK(!has_items_.empty() && !after_key_);
  const bool had_items = has_items_.back();
  has_items_.pop_back();
  if (had_items) NewLine();
  out_ += bracket;
}

// Puts what separates this value from the one before.
void JsonWriter::BeforeValue() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (has_items_.empty()) return;
  if (has_items_.back()) out_ += ',';
  has_items_.back() = true;
  NewLine();
}

void JsonWriter::Raw(std::string_view token) {
  BeforeValue();
  out_ += token;
}

void JsonWriter::NewLine() {
  out_ += '\n';
  out_.append(2 * has_items_.size(), ' ');
}

}  // namespace thermocline::cli

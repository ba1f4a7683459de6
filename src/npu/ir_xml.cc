#include "npu/ir_xml.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/quote.h"

namespace thermocline::npu {
namespace {

constexpr std::array<std::pair<char, std::string_view>, 5> kReferences = {{
    {'&', "amp"},
    {'<', "lt"},
    {'>', "gt"},
    {'"', "quot"},
    {'\'', "apos"},
}};

// As InferTypes has it.
constexpr size_t kMostDims = 8;

bool IsXmlSpace(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

bool IsNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.' || c == ':';
}

// "#10": a character below 0x80.
std::optional<char> ParseCharacter(std::string_view reference) {
  if (!reference.starts_with('#')) return std::nullopt;
  const std::optional<int64_t> code = ParseWhole(reference.substr(1));
  if (!code.has_value() || *code < 1 || *code > 0x7f) return std::nullopt;
  return static_cast<char>(*code);
}

}  // namespace

std::string NameInList(std::string_view name) {
  std::string escaped;
  for (const char c : name) {
    if (c == ',') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string EscapeXml(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    const auto* found = std::ranges::find(
        kReferences, c, &std::pair<char, std::string_view>::first);
    const auto code = static_cast<unsigned char>(c);
    if (found != kReferences.end()) {
      escaped += fmt::format("&{};", found->second);
    } else if (code < 0x20 || code == 0x7f) {
      escaped += fmt::format("&#{};", code);
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::optional<int64_t> ParseWhole(std::string_view text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

bool XmlScanner::Takes(std::string_view expected) {
  if (!text_.substr(at_).starts_with(expected)) return false;
  at_ += expected.size();
  return true;
}

void XmlScanner::SkipSpaces() {
  for (; at_ < text_.size() && IsXmlSpace(text_[at_]); ++at_) {
    if (text_[at_] == '\n') ++line_;
  }
}

std::string_view XmlScanner::TakeName() {
  const size_t begin = at_;
  while (at_ < text_.size() && IsNameChar(text_[at_])) ++at_;
  return text_.substr(begin, at_ - begin);
}

Result<std::string> XmlScanner::Unescape(std::string_view raw) const {
  std::string text;
  while (!raw.empty()) {
    const size_t plain = std::min(raw.find('&'), raw.size());
    text += raw.substr(0, plain);
    raw.remove_prefix(plain);
    if (raw.empty()) break;
    const size_t end = raw.substr(0, 8).find(';');
    const std::string_view name =
        end == std::string_view::npos ? "" : raw.substr(1, end - 1);
    const auto* found = std::ranges::find(
        kReferences, name, &std::pair<char, std::string_view>::second);
    const std::optional<char> code = ParseCharacter(name);
    if (found == kReferences.end() && !code.has_value()) {
      return Fail(ErrorCode::kCorrupt, "line {}: '&' without a known reference",
                  line_);
    }
    text += code.has_value() ? *code : found->first;
    raw.remove_prefix(end + 1);
  }
  return text;
}

Result<XmlAttribute> XmlScanner::TakeAttribute() {
  XmlAttribute attribute = {.name = TakeName()};
  SkipSpaces();
  const bool has_equals = Takes("=");
  SkipSpaces();
  const size_t begin = at_ + 1;
  if (attribute.name.empty() || !has_equals || !Takes("\"")) {
    return Fail(ErrorCode::kCorrupt,
                "line {}: no attribute, or its value is "
                "not in double quotes",
                line_);
  }
  const size_t end = text_.find_first_of("\"<", begin);
  if (end == std::string_view::npos || text_[end] == '<') {
    return Fail(ErrorCode::kCorrupt,
                "line {}: the value of attribute {} does not end", line_,
                Quote(attribute.name));
  }
  const std::string_view raw = text_.substr(begin, end - begin);
  TC_ASSIGN_OR_RETURN(attribute.value, Unescape(raw));
  line_ += static_cast<size_t>(std::ranges::count(raw, '\n'));
  at_ = end + 1;
  return attribute;
}

Status XmlScanner::SkipDeclaration() {
  SkipSpaces();
  if (!Takes("<?xml ")) return {};
  const size_t end = text_.find("?>", at_);
  if (end == std::string_view::npos) {
    return Fail(ErrorCode::kCorrupt, "line {}: the declaration does not end",
                line_);
  }
  const std::string_view inside = text_.substr(at_, end - at_);
  line_ += static_cast<size_t>(std::ranges::count(inside, '\n'));
  at_ = end + 2;
  return {};
}

Result<XmlTag> XmlScanner::Next() {
  SkipSpaces();
  XmlTag tag = {.line = line_};
  const bool is_tag = Takes("<");
  tag.is_closing = Takes("/");
  if (is_tag) tag.name = TakeName();
  if (tag.name.empty()) {
    return Fail(ErrorCode::kCorrupt, "line {}: {} where a tag is expected",
                line_, at_ >= text_.size() ? "the end" : "something else");
  }
  while (true) {
    SkipSpaces();
    if (Takes(">")) return tag;
    if (!tag.is_closing && Takes("/>")) {
      tag.is_whole = true;
      return tag;
    }
    if (tag.is_closing || tag.attributes.size() == kMostAttributes) break;
    TC_ASSIGN_OR_RETURN(XmlAttribute attribute, TakeAttribute());
    if (std::ranges::find(tag.attributes, attribute.name,
                          &XmlAttribute::name) != tag.attributes.end()) {
      return Fail(ErrorCode::kCorrupt, "line {}: attribute {} twice", line_,
                  Quote(attribute.name));
    }
    tag.attributes.push_back(std::move(attribute));
  }
  return Fail(ErrorCode::kCorrupt, "line {}: tag {} does not end", line_,
              Quote(tag.name));
}

Result<int64_t> XmlScanner::NextNumber() {
  SkipSpaces();
  const size_t begin = at_;
  while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
  const std::optional<int64_t> value =
      ParseWhole(text_.substr(begin, at_ - begin));
  if (!value.has_value()) {
    return Fail(ErrorCode::kCorrupt, "line {}: no whole number", line_);
  }
  SkipSpaces();
  return *value;
}

Status XmlScanner::ExpectEnd() {
  SkipSpaces();
  if (at_ == text_.size()) return {};
  return Fail(ErrorCode::kCorrupt, "line {}: something behind the end", line_);
}

Result<std::string> XmlAttributes::Text(std::string_view name) {
  for (size_t i = 0; i < tag_.attributes.size(); ++i) {
    if (tag_.attributes[i].name != name) continue;
    is_taken_[i] = true;
    return tag_.attributes[i].value;
  }
  return Fail(ErrorCode::kCorrupt, "line {}: {} without attribute {}",
              tag_.line, Quote(tag_.name), name);
}

Result<int64_t> XmlAttributes::Number(std::string_view name) {
  TC_ASSIGN_OR_RETURN(const std::string text, Text(name));
  const std::optional<int64_t> value = ParseWhole(text);
  if (value.has_value()) return *value;
  return Fail(ErrorCode::kCorrupt, "line {}: {} is {}, no whole number",
              tag_.line, name, Quote(text));
}

Result<size_t> XmlAttributes::Number(std::string_view name, size_t most) {
  TC_ASSIGN_OR_RETURN(const int64_t value, Number(name));
  if (value >= 0 && static_cast<uint64_t>(value) <= most) {
    return static_cast<size_t>(value);
  }
  return Fail(ErrorCode::kCorrupt, "line {}: {} is {}, not from 0 to {}",
              tag_.line, name, value, most);
}

Result<bool> XmlAttributes::Bool(std::string_view name) {
  TC_ASSIGN_OR_RETURN(const std::string text, Text(name));
  if (text == "true" || text == "false") return text == "true";
  return Fail(ErrorCode::kCorrupt, "line {}: {} is {}, not true or false",
              tag_.line, name, Quote(text));
}

Result<Dims> XmlAttributes::Shape(std::string_view name) {
  TC_ASSIGN_OR_RETURN(const std::string text, Text(name));
  Dims dims;
  for (std::string_view rest = text; !text.empty();) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::optional<int64_t> extent = ParseWhole(rest.substr(0, comma));
    if (!extent.has_value() || dims.size() == kMostDims) {
      return Fail(ErrorCode::kCorrupt, "line {}: {} is {}, no shape", tag_.line,
                  name, Quote(text));
    }
    dims.push_back(*extent);
    if (comma == rest.size()) break;
    rest.remove_prefix(comma + 1);
  }
  return dims;
}

Result<Element> XmlAttributes::ElementOf(std::string_view name) {
  TC_ASSIGN_OR_RETURN(const std::string text, Text(name));
  const std::optional<Element> element = ParseElement(text);
  if (element.has_value()) return *element;
  return Fail(ErrorCode::kUnsupported, "line {}: {} is {}", tag_.line, name,
              Quote(text));
}

Status XmlAttributes::Expect(std::string_view name, std::string_view value) {
  TC_ASSIGN_OR_RETURN(const std::string text, Text(name));
  if (text == value) return {};
  return Fail(ErrorCode::kUnsupported, "line {}: {} is {}; only {} is known",
              tag_.line, name, Quote(text), value);
}

bool XmlAttributes::Has(std::string_view name) const {
  return std::ranges::find(tag_.attributes, name, &XmlAttribute::name) !=
         tag_.attributes.end();
}

Status XmlAttributes::ExpectAllTaken() const {
  const auto left = std::ranges::find(is_taken_, false);
  if (left == is_taken_.end()) return {};
  const auto i = static_cast<size_t>(left - is_taken_.begin());
  return Fail(ErrorCode::kUnsupported, "line {}: attribute {} of {}", tag_.line,
              Quote(tag_.attributes[i].name), Quote(tag_.name));
}

}  // namespace thermocline::npu

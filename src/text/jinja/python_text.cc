#include <charconv>
#include <cmath>
#include <string>

#include "text/jinja/characters.h"
#include "text/jinja/printing.h"

namespace thermocline::text::jinja {
namespace {

// Writes what Python's repr writes.
class ReprWriter {
 public:
  explicit ReprWriter(Runtime& runtime) : runtime_(runtime), out_(runtime) {}

  Status Write(const Value& value, int depth) {
    if (depth > runtime_.nesting()) return runtime_.TooDeep();
    if (!runtime_.Work(1)) return runtime_.Check();
    has_content_ = has_content_ || HasContent(value);
    switch (value.kind) {
      case Kind::kText:
        WriteText(value);
        return {};
      case Kind::kList:
        return WriteItems("[", value, "]", depth);
      case Kind::kTuple:
        return WriteItems("(", value,
                          value.list->items.size() == 1 ? ",)" : ")", depth);
      case Kind::kView:
        return WriteItems("dict_view([", value, "])", depth);
      case Kind::kNamespace:
        Put("<Namespace ");
        TC_RETURN_IF_ERROR(WriteDict(*value.dict, depth));
        Put(">");
        return {};
      case Kind::kDict:
        return WriteDict(*value.dict, depth);
      default:
        Put(Plain(value));
        return {};
    }
  }

  Value Finish() { return out_.FinishAs(has_content_); }

 private:
  void Put(std::string_view bytes) { out_.Append(bytes, false); }

  // A value without parts.
  static std::string Plain(const Value& value) {
    switch (value.kind) {
      case Kind::kNone:
        return "None";
      case Kind::kBool:
        return value.truth ? "True" : "False";
      case Kind::kInt:
        return fmt::format("{}", value.integer);
      case Kind::kBigInt:
        return fmt::format("{}", value.big);
      case Kind::kFloat:
        return FloatText(value.number);
      case Kind::kUndefined:
        return "Undefined";
      case Kind::kRange: {
        const Range& range = *value.range;
        const int64_t stop = range.At(range.size);
        if (range.step == 1) {
          return fmt::format("range({}, {})", range.start, stop);
        }
        return fmt::format("range({}, {}, {})", range.start, stop, range.step);
      }
      default:
        return fmt::format("<{}>", TypeName(value));
    }
  }

  Status WriteItems(std::string_view begin, const Value& list,
                    std::string_view end, int depth) {
    Put(begin);
    const std::vector<Value>& items = list.list->items;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) Put(", ");
      TC_RETURN_IF_ERROR(Write(items[i], depth + 1));
    }
    Put(end);
    return {};
  }

  Status WriteDict(const Dict& dict, int depth) {
    Put("{");
    std::string_view separator;
    for (const Dict::Entry& entry : dict.entries()) {
      Put(separator);
      TC_RETURN_IF_ERROR(Write(entry.key, depth + 1));
      Put(": ");
      TC_RETURN_IF_ERROR(Write(entry.value, depth + 1));
      separator = ", ";
    }
    Put("}");
    return {};
  }

  void WriteText(const Value& text) {
    std::string_view bytes = View(text);  // stays: out_ is another buffer
    if (!runtime_.Walk(bytes.size())) return;
    const bool has_single = bytes.find('\'') != std::string_view::npos;
    const bool has_double = bytes.find('"') != std::string_view::npos;
    const char quote = has_single && !has_double ? '"' : '\'';
    std::string out(1, quote);
    while (!bytes.empty()) {
      const Character c = FirstCharacter(bytes);
      WriteCharacter(bytes.substr(0, c.num_bytes), c.code, quote, &out);
      bytes.remove_prefix(c.num_bytes);
      if (out.size() < kMaxPending) continue;
      Put(out);
      if (runtime_.spent()) return;
      out.clear();
    }
    out += quote;
    Put(out);
  }

  static void WriteCharacter(std::string_view bytes, char32_t c, char quote,
                             std::string* out) {
    if (c == '\\' || c == static_cast<char32_t>(quote)) {
      out->push_back('\\');
      out->append(bytes);
    } else if (c == '\n') {
      out->append("\\n");
    } else if (c == '\r') {
      out->append("\\r");
    } else if (c == '\t') {
      out->append("\\t");
    } else if (c == kNoCharacter || IsPrintableCharacter(c)) {
      out->append(bytes);
    } else if (c < 0x100) {
      out->append(fmt::format("\\x{:02x}", static_cast<uint32_t>(c)));
    } else if (c < 0x10000) {
      out->append(fmt::format("\\u{:04x}", static_cast<uint32_t>(c)));
    } else {
      out->append(fmt::format("\\U{:08x}", static_cast<uint32_t>(c)));
    }
  }

  Runtime& runtime_;
  TextBuilder out_;
  bool has_content_ = false;
};

}  // namespace

std::string FloatText(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char shortest[32];
  const auto written = std::to_chars(shortest, shortest + sizeof(shortest),
                                     number, std::chars_format::scientific);
  const std::string_view text(shortest,
                              static_cast<size_t>(written.ptr - shortest));
  const size_t e = text.find('e');
  int exponent = 0;
  const size_t skipped_plus = text[e + 1] == '+' ? 2 : 1;
  std::from_chars(text.data() + e + skipped_plus, written.ptr, exponent);
  if (exponent < -4 || exponent >= 16) return std::string(text);
  const bool is_negative = text[0] == '-';
  std::string digits;
  for (const char c : text.substr(0, e)) {
    if (c >= '0' && c <= '9') digits += c;
  }
  std::string plain;
  if (exponent < 0) {
    plain =
        "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  } else {
    const size_t whole = static_cast<size_t>(exponent) + 1;
    if (digits.size() < whole + 1) digits.resize(whole + 1, '0');
    plain = digits.substr(0, whole) + "." + digits.substr(whole);
  }
  return is_negative ? "-" + plain : plain;
}

Result<Value> ToRepr(Runtime& runtime, const Value& value) {
  ReprWriter writer(runtime);
  TC_RETURN_IF_ERROR(writer.Write(value, 1));
  return writer.Finish();
}

Result<Value> ToText(Runtime& runtime, const Value& value) {
  if (IsText(value)) return value;
  if (value.kind == Kind::kUndefined) return OutsideText({}, false);
  if (value.kind == Kind::kNone) return OutsideText("None", value.is_content);
  if (value.kind == Kind::kBool) {
    return OutsideText(value.truth ? "True" : "False", value.is_content);
  }
  return ToRepr(runtime, value);
}

}  // namespace thermocline::text::jinja

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "text/jinja/characters.h"
#include "text/jinja/json_variable.h"
#include "text/jinja/printing.h"

namespace thermocline::text::jinja {
namespace {

constexpr size_t kMaxOutsideBytes = size_t{1} << 31;

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonStyle& style)
      : runtime_(runtime),
        style_(style),
        out_(runtime),
        has_content_(style.is_content) {}

  Status Write(const Value& value, int depth) {
    if (depth > runtime_.nesting()) return runtime_.TooDeep();
    if (!runtime_.Work(1)) return runtime_.Check();
    has_content_ = has_content_ || HasContent(value);
    if (IsText(value)) {
      WriteText(View(value));
    } else if (value.kind == Kind::kDict) {
      return WriteDict(*value.dict, depth);
    } else if (IsSequence(value) || value.kind == Kind::kGenerator) {
      return WriteItems(value.list->items, depth);
    } else if (auto word = Word(value); !word.empty()) {
      Put(word);
    } else {
      return Fail(ErrorCode::kCorrupt, "JSON has no {}", TypeName(value));
    }
    return {};
  }

  Value Finish() { return out_.FinishAs(has_content_); }

 private:
  void Put(std::string_view bytes) { out_.Append(bytes, false); }

  // Empty: the value is none of these.
  static std::string Word(const Value& value) {
    switch (value.kind) {
      case Kind::kNone:
        return "null";
      case Kind::kBool:
        return value.truth ? "true" : "false";
      case Kind::kInt:
        return fmt::format("{}", value.integer);
      case Kind::kBigInt:
        return fmt::format("{}", value.big);
      case Kind::kFloat:
        if (value.number != value.number) return "NaN";
        if (value.number > std::numeric_limits<double>::max()) {
          return "Infinity";
        }
        if (value.number < std::numeric_limits<double>::lowest()) {
          return "-Infinity";
        }
        return FloatText(value.number);
      default:
        return {};
    }
  }

  void NewLine(int depth) {
    if (!style_.indent) return;
    Put("\n");
    for (int i = 0; i < depth; ++i) Put(*style_.indent);
  }

  Status WriteItems(const std::vector<Value>& items, int depth) {
    Put("[");
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) Put(style_.item_separator);
      NewLine(depth);
      TC_RETURN_IF_ERROR(Write(items[i], depth + 1));
    }
    if (!items.empty()) NewLine(depth - 1);
    Put("]");
    return {};
  }

  Status WriteDict(const Dict& dict, int depth) {
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries()) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::sort(entries.begin(), entries.end(),
                [](const Dict::Entry* a, const Dict::Entry* b) {
                  return KeyLess()(a->key, b->key);
                });
    }
    Put("{");
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) Put(style_.item_separator);
      NewLine(depth);
      TC_RETURN_IF_ERROR(WriteKey(entries[i]->key));
      Put(style_.key_separator);
      TC_RETURN_IF_ERROR(Write(entries[i]->value, depth + 1));
    }
    if (!entries.empty()) NewLine(depth - 1);
    Put("}");
    return {};
  }

  Status WriteKey(const Value& key) {
    has_content_ = has_content_ || HasContent(key);
    if (IsText(key)) {
      WriteText(View(key));
      return {};
    }
    const std::string word = Word(key);
    if (word.empty()) {
      return Fail(ErrorCode::kCorrupt, "JSON has no {} as a key",
                  TypeName(key));
    }
    WriteText(word);
    return {};
  }

  void WriteText(std::string_view bytes) {
    if (!runtime_.Walk(bytes.size())) return;
    std::string out = "\"";
    while (!bytes.empty()) {
      const auto c = static_cast<unsigned char>(bytes[0]);
      size_t n = 1;
      if (c >= 0x80 && style_.ensure_ascii) {
        const Character character = FirstCharacter(bytes);
        n = character.num_bytes;
        AppendEscaped(character.code, &out);
      } else if (c == '"' || c == '\\' || c < 0x20) {
        AppendSpecial(c, &out);
      } else {
        out.push_back(bytes[0]);
      }
      bytes.remove_prefix(n);
      if (out.size() < kMaxPending) continue;
      Put(out);
      if (runtime_.spent()) return;
      out.clear();
    }
    out += '"';
    Put(out);
  }

  static void AppendSpecial(unsigned char c, std::string* out) {
    constexpr std::string_view kNamed = "\"\\\n\r\t\b\f";
    constexpr std::string_view kLetters = "\"\\nrtbf";
    const size_t i = kNamed.find(static_cast<char>(c));
    if (i == std::string_view::npos) {
      out->append(fmt::format("\\u{:04x}", c));
    } else {
      out->push_back('\\');
      out->push_back(kLetters[i]);
    }
  }

  static void AppendEscaped(char32_t c, std::string* out) {
    if (c == kNoCharacter) c = 0xfffd;
    auto code = static_cast<uint32_t>(c);
    if (code >= 0x10000) {
      code -= 0x10000;
      out->append(fmt::format("\\u{:04x}", 0xd800 + (code >> 10)));
      code = 0xdc00 + (code & 0x3ff);
    }
    out->append(fmt::format("\\u{:04x}", code));
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  TextBuilder out_;
  bool has_content_;
};

Value BigOrInt(uint64_t number) {
  if (number <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return Int(static_cast<int64_t>(number));
  }
  Value value{.kind = Kind::kBigInt};
  value.big = number;
  return value;
}

Value ScalarOf(const Json& json) {
  if (json.is_boolean()) return Bool(json.get<bool>());
  if (json.is_number_unsigned()) return BigOrInt(json.get<uint64_t>());
  if (json.is_number_integer()) return Int(json.get<int64_t>());
  if (json.is_number_float()) return Float(json.get<double>());
  return None();
}

Result<Value> ConvertJson(Runtime& runtime, const Json& json, bool is_content,
                          int depth) {
  if (depth > runtime.nesting()) {
    TC_RETURN_IF_ERROR(runtime.TooDeep());
  }
  TC_RETURN_IF_ERROR(runtime.Check());
  Value value;
  if (json.is_object()) {
    value = runtime.NewDict();
    for (const auto& [key, item] : json.items()) {
      TC_ASSIGN_OR_RETURN(const Value converted,
                          ConvertJson(runtime, item, is_content, depth + 1));
      runtime.SetItem(value.dict, OutsideText(key, is_content), converted);
    }
  } else if (json.is_array()) {
    ListBuilder items(runtime);
    for (const Json& item : json) {
      TC_ASSIGN_OR_RETURN(const Value converted,
                          ConvertJson(runtime, item, is_content, depth + 1));
      items.Add(converted);
    }
    value = items.Finish();
  } else if (json.is_string()) {
    const auto& text = json.get_ref<const std::string&>();
    // Texts know their size in 32 bits, and no rendering may make more.
    if (text.size() >= kMaxOutsideBytes) runtime.Charge(text.size());
    TC_RETURN_IF_ERROR(runtime.Check());
    return OutsideText(text, is_content);
  } else {
    value = ScalarOf(json);
  }
  value.is_content = is_content;
  return value;
}

// Makes values of what a parser reports, without recursion.
class JsonReader {
 public:
  // What nlohmann asks for and calls, by its names.
  // NOLINTBEGIN(readability-identifier-naming)
  using number_integer_t = Json::number_integer_t;
  using number_unsigned_t = Json::number_unsigned_t;
  using number_float_t = Json::number_float_t;
  using string_t = Json::string_t;
  using binary_t = Json::binary_t;
  // NOLINTEND(readability-identifier-naming)

  JsonReader(Runtime& runtime, bool is_content)
      : runtime_(runtime), is_content_(is_content) {}

  const Value& value() const { return value_; }

  // NOLINTBEGIN(readability-identifier-naming)
  bool null() { return Add(None()); }
  bool boolean(bool truth) { return Add(Bool(truth)); }
  bool number_integer(number_integer_t number) { return Add(Int(number)); }
  bool number_unsigned(number_unsigned_t number) {
    return Add(BigOrInt(number));
  }
  bool number_float(number_float_t number, const string_t&) {
    return Add(Float(number));
  }
  bool string(const string_t& text) {
    return Add(MakeText(runtime_, text, is_content_));
  }
  bool binary(const binary_t&) { return false; }
  bool start_object(size_t) { return Begin(runtime_.NewDict()); }
  bool key(const string_t& text) {
    open_.back().key = MakeText(runtime_, text, is_content_);
    return true;
  }
  bool end_object() { return End(); }
  bool start_array(size_t) { return Begin(runtime_.NewList(Kind::kList, {})); }
  bool end_array() { return End(); }
  bool parse_error(size_t, const std::string&, const Json::exception&) {
    return false;
  }
  // NOLINTEND(readability-identifier-naming)

 private:
  struct Open {
    Value container;
    Value key;
  };

  bool Add(Value value) {
    value.is_content = is_content_;
    if (open_.empty()) {
      value_ = value;
    } else if (open_.back().container.kind == Kind::kDict) {
      runtime_.SetItem(open_.back().container.dict, open_.back().key, value);
    } else if (runtime_.Charge(sizeof(Value))) {
      open_.back().container.list->items.push_back(value);
    }
    return !runtime_.spent();
  }
  bool Begin(Value container) {
    if (!Add(container)) return false;
    if (open_.size() >= static_cast<size_t>(runtime_.nesting())) {
      return runtime_.TooDeep().has_value();
    }
    open_.push_back({container, {}});
    return true;
  }
  bool End() {
    open_.pop_back();
    return true;
  }

  Runtime& runtime_;
  bool is_content_;
  Value value_;
  std::vector<Open> open_;
};

}  // namespace

Result<Value> ToJson(Runtime& runtime, const Value& value,
                     const JsonStyle& style) {
  JsonWriter writer(runtime, style);
  TC_RETURN_IF_ERROR(writer.Write(value, 1));
  return writer.Finish();
}

Result<Value> FromJson(Runtime& runtime, const Json& json, bool is_content) {
  return ConvertJson(runtime, json, is_content, 1);
}

Result<Value> ParseJson(Runtime& runtime, const Value& text) {
  if (!runtime.Walk(text.size)) TC_RETURN_IF_ERROR(runtime.Check());
  const std::string bytes(View(text));
  JsonReader reader(runtime, HasContent(text));
  const bool is_read = Json::sax_parse(bytes, &reader);
  TC_RETURN_IF_ERROR(runtime.Check());
  if (!is_read) {
    return Fail(ErrorCode::kCorrupt, "the text is not JSON");
  }
  return reader.value();
}

}  // namespace thermocline::text::jinja

#include <cmath>
#include <string>

#include "text/jinja/characters.h"
#include "text/jinja/operators.h"
#include "text/jinja/printing.h"
#include "text/jinja/text_builder.h"
#include "text/jinja/text_ops.h"

namespace thermocline::text::jinja {
namespace {

constexpr int kMaxWidth = 10'000;
constexpr int kMaxPrecision = 300;

// %[flags][width][.precision]conversion.
struct PercentSpec {
  bool left = false, zero = false, plus = false, space = false, other = false;
  int width = 0;
  int precision = -1;
  char conversion = '\0';
};

class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, const Value& format, const Value& value)
      : runtime_(runtime),
        format_(format),
        bytes_(View(format)),
        builder_(runtime) {
    arguments_ = value.kind == Kind::kTuple ? value.list->items
                                            : std::vector<Value>{value};
    may_be_left_ = value.kind == Kind::kDict || value.kind == Kind::kList;
  }

  Result<Value> Run() {
    runtime_.Scan(bytes_.size());
    while (at_ < bytes_.size()) {
      const size_t begin = std::min(bytes_.find('%', at_), bytes_.size());
      builder_.AppendSlice(format_, at_, begin - at_);
      at_ = begin;
      if (begin == bytes_.size()) break;
      TC_ASSIGN_OR_RETURN(const PercentSpec spec, ReadSpec());
      if (spec.conversion == '%') {
        builder_.AppendSlice(format_, begin, 1);
        continue;
      }
      if (next_ == arguments_.size()) {
        return Fail(ErrorCode::kCorrupt, "too few arguments for '%'");
      }
      TC_RETURN_IF_ERROR(AppendArgument(spec, arguments_[next_++]));
    }
    if (next_ < arguments_.size() && !(may_be_left_ && next_ == 0)) {
      return Fail(ErrorCode::kCorrupt, "too many arguments for '%'");
    }
    return builder_.Finish();
  }

 private:
  char Peek() const { return at_ < bytes_.size() ? bytes_[at_] : '\0'; }

  Result<int> ReadNumber(int most) {
    int number = 0;
    for (; Peek() >= '0' && Peek() <= '9'; ++at_) {
      number = number * 10 + (Peek() - '0');
      if (number > most) {
        return Fail(ErrorCode::kUnsupported, "a width past {} behind '%'",
                    most);
      }
    }
    return number;
  }

  Result<PercentSpec> ReadSpec() {
    PercentSpec spec;
    for (++at_;; ++at_) {
      const char c = Peek();
      if (c == '-') {
        spec.left = true;
      } else if (c == '0') {
        spec.zero = true;
      } else if (c == '+') {
        spec.plus = true;
      } else if (c == ' ') {
        spec.space = true;
      } else if (c == '#') {
        spec.other = true;
      } else {
        break;
      }
    }
    TC_ASSIGN_OR_RETURN(spec.width, ReadNumber(kMaxWidth));
    if (Peek() == '.') {
      ++at_;
      TC_ASSIGN_OR_RETURN(spec.precision, ReadNumber(kMaxPrecision));
    }
    spec.conversion = Peek();
    constexpr std::string_view kConversions = "%sradiufFeEgGxXo";
    if (spec.conversion == '\0' ||
        kConversions.find(spec.conversion) == std::string_view::npos) {
      return Fail(ErrorCode::kUnsupported, "a text's '%' before '{}'",
                  bytes_.substr(std::min(at_, bytes_.size()), 1));
    }
    ++at_;
    return spec;
  }

  Status AppendArgument(const PercentSpec& spec, const Value& value) {
    const char c = spec.conversion;
    if (c == 's' || c == 'r' || c == 'a') {
      TC_ASSIGN_OR_RETURN(Value text, c == 's' ? ToText(runtime_, value)
                                               : ToRepr(runtime_, value));
      if (spec.precision >= 0) {
        text = Slice(
            text, 0,
            ByteOfCharacter(View(text), static_cast<size_t>(spec.precision)));
      }
      builder_.Append(Pad(runtime_, text, spec.width,
                          spec.left ? Align::kLeft : Align::kRight));
      return {};
    }
    TC_RETURN_IF_ERROR(CheckDefined(value));
    if (!IsNumber(value)) {
      return Fail(ErrorCode::kCorrupt, "'%{}' needs a number, not {}", c,
                  TypeName(value));
    }
    TC_ASSIGN_OR_RETURN(std::string text, NumberText(spec, value));
    AddSign(spec, &text);
    builder_.Append(text, value.is_content);
    return {};
  }

  // Without sign, if it is not negative, and width.
  static Result<std::string> NumberText(const PercentSpec& spec,
                                        const Value& value) {
    const char c = spec.conversion;
    const int precision = spec.precision < 0 ? 6 : spec.precision;
    const double real = AsDouble(value);
    switch (c) {
      case 'f':
      case 'F':
        return fmt::format("{:.{}f}", real, precision);
      case 'e':
        return fmt::format("{:.{}e}", real, precision);
      case 'E':
        return fmt::format("{:.{}E}", real, precision);
      case 'g':
        return fmt::format("{:.{}g}", real, precision);
      case 'G':
        return fmt::format("{:.{}G}", real, precision);
      default:
        return IntegerText(spec, value);
    }
  }

  static Result<std::string> IntegerText(const PercentSpec& spec,
                                         const Value& value) {
    const char c = spec.conversion;
    int64_t number = 0;
    if (value.kind == Kind::kFloat) {
      if (!(std::abs(value.number) < 9e18)) {
        return Fail(ErrorCode::kUnsupported, "an integer past 64 bits");
      }
      number = static_cast<int64_t>(value.number);
    } else {
      number = AsInt(value);
    }
    const bool is_negative = number < 0;
    const uint64_t size = is_negative ? 0 - static_cast<uint64_t>(number)
                                      : static_cast<uint64_t>(number);
    std::string digits = c == 'x'   ? fmt::format("{:x}", size)
                         : c == 'X' ? fmt::format("{:X}", size)
                         : c == 'o' ? fmt::format("{:o}", size)
                                    : fmt::format("{}", size);
    if (spec.precision > static_cast<int>(digits.size())) {
      digits.insert(0, static_cast<size_t>(spec.precision) - digits.size(),
                    '0');
    }
    if (spec.other && (c == 'x' || c == 'X' || c == 'o')) {
      digits.insert(0, {'0', c});
    }
    return is_negative ? "-" + digits : digits;
  }

  static void AddSign(const PercentSpec& spec, std::string* text) {
    if (!text->starts_with('-')) {
      if (spec.plus) {
        text->insert(0, "+");
      } else if (spec.space) {
        text->insert(0, " ");
      }
    }
    const auto width = static_cast<size_t>(spec.width);
    if (text->size() >= width) return;
    const size_t missing = width - text->size();
    if (spec.left) {
      text->append(missing, ' ');
    } else if (spec.zero) {
      const bool has_sign =
          !text->empty() &&
          ((*text)[0] == '-' || (*text)[0] == '+' || (*text)[0] == ' ');
      text->insert(has_sign ? 1 : 0, missing, '0');
    } else {
      text->insert(0, missing, ' ');
    }
  }

  Runtime& runtime_;
  const Value& format_;
  std::string bytes_;
  TextBuilder builder_;
  std::vector<Value> arguments_;
  bool may_be_left_;  // a single argument that '%(name)s' might look into
  size_t at_ = 0;
  size_t next_ = 0;
};

// What stands between braces; `next` counts those that are empty.
Result<Value> FieldOf(const Args& args, const std::string& field,
                      size_t* next) {
  if (field.find_first_of(":!.[") != std::string::npos) {
    return Fail(ErrorCode::kUnsupported, "'{{{}}}' has more than a name",
                field);
  }
  const bool is_number =
      field.size() < 6 &&
      field.find_first_not_of("0123456789") == std::string::npos;
  if (is_number) {
    const size_t index = field.empty() ? (*next)++ : std::stoul(field);
    if (index < args.positional.size()) return args.positional[index];
  }
  for (const auto& [name, value] : args.named) {
    if (name == field) return value;
  }
  return Fail(ErrorCode::kCorrupt, "there is no argument for '{{{}}}'", field);
}

}  // namespace

Result<Value> FormatPercent(Runtime& runtime, const Value& format,
                            const Value& value) {
  return PercentFormatter(runtime, format, value).Run();
}

Result<Value> FormatBraces(Runtime& runtime, const Value& format,
                           const Args& args) {
  runtime.Walk(format.size);
  const std::string bytes(View(format));
  TextBuilder builder(runtime);
  size_t next = 0;
  for (size_t at = 0; at < bytes.size();) {
    const size_t brace = std::min(bytes.find_first_of("{}", at), bytes.size());
    builder.AppendSlice(format, at, brace - at);
    if (brace == bytes.size()) break;
    if (brace + 1 < bytes.size() && bytes[brace + 1] == bytes[brace]) {
      builder.AppendSlice(format, brace, 1);
      at = brace + 2;
      continue;
    }
    const size_t end = bytes.find('}', brace);
    if (bytes[brace] == '}' || end == std::string::npos) {
      return Fail(ErrorCode::kCorrupt, "a brace stands alone");
    }
    TC_ASSIGN_OR_RETURN(
        const Value field,
        FieldOf(args, bytes.substr(brace + 1, end - brace - 1), &next));
    TC_ASSIGN_OR_RETURN(const Value text, ToText(runtime, field));
    builder.Append(text);
    at = end + 1;
  }
  return builder.Finish();
}

}  // namespace thermocline::text::jinja

#include "convert/hf_pretokenizer.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "gguf/quote.h"

namespace thermocline::convert {
namespace {

// Pre-tokenizers are compared as one line per step. A line says everything that
// changes where text is cut: the type and its settings, or a regex with
// characters outside of ASCII written as \x{...}.
constexpr const char* kBytes = "bytes";             // no cutting
constexpr const char* kBytesGpt2 = "bytes, gpt-2";  // GPT-2's regex
constexpr const char* kEachDigit = "digits, each";

constexpr const char* kLlama3 =
    R"(regex (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2 =
    R"(regex (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kLineBreak = R"(regex [\r\n])";
constexpr const char* kCjk =
    R"(regex [\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";
constexpr const char* kDeepSeekLetters =
    R"(regex \s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC})"
    R"(-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377})"
    R"(\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1})"
    R"(\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556})"
    R"(\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA})"
    R"(\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A})"
    R"(\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D})"
    R"(\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D})"
    R"(\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4})"
    R"(\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC})"
    R"(\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113})"
    R"(\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D})"
    R"(\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E})"
    R"(\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE})"
    R"(\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F})"
    R"(\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06})"
    R"(\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F})"
    R"(\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2})"
    R"(\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)";
constexpr const char* kDeepSeekPunctuation =
    R"(regex \s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F})"
    R"(\x{3000}-\x{3002}]+)";

struct Known {
  const char* name;
  std::vector<std::string_view> steps;
};

const std::vector<Known>& AllKnown() {
  static const std::vector<Known> known = {
      {"gpt-2", {kBytesGpt2}},
      {"llama3", {kLlama3, kBytes}},
      {"qwen2", {kQwen2, kBytes}},
      {"smollm", {kEachDigit, kBytesGpt2}},
      {"deepseek-llm",
       {kLineBreak, kDeepSeekLetters, kDeepSeekPunctuation, R"(regex \s+$)",
        kCjk, kEachDigit, kBytes}},
      {"deepseek-coder",
       {kLineBreak, R"(regex \s?\p{L}+)", R"(regex \s?\p{P}+)", kCjk,
        kEachDigit, kBytes}},
  };
  return known;
}

// `regex` in ASCII. Requires valid UTF-8, which the JSON parser has checked.
std::string Spell(std::string_view regex) {
  std::string spelled;
  for (size_t i = 0; i < regex.size();) {
    const auto first = static_cast<unsigned char>(regex[i]);
    if (first < 0x80) {
      if (first == '\r') {
        spelled += "\\r";
      } else if (first == '\n') {
        spelled += "\\n";
      } else {
        spelled += regex[i];
      }
      ++i;
      continue;
    }
    const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    uint32_t code = first & (0x7fu >> length);
    for (size_t k = 1; k < length && i + k < regex.size(); ++k) {
      code = code << 6 | (static_cast<unsigned char>(regex[i + k]) & 0x3fu);
    }
    spelled += fmt::format("\\x{{{:X}}}", code);
    i += length;
  }
  return spelled;
}

// The contractions as some tokenizers spell them out.
std::string FoldContractions(std::string regex) {
  constexpr std::string_view kLong =
      "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])";
  constexpr std::string_view kShort = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
  const size_t at = regex.find(kLong);
  if (at != std::string::npos) regex.replace(at, kLong.size(), kShort);
  return regex;
}

Result<std::string> DescribeSplit(const JsonFields& step) {
  TC_ASSIGN_OR_RETURN(const auto behavior, step.RequireString("behavior"));
  TC_ASSIGN_OR_RETURN(const auto invert, step.Bool("invert"));
  const Json* pattern = step.Find("pattern");
  if (pattern == nullptr) return step.Wrong("pattern", "is missing");
  TC_ASSIGN_OR_RETURN(const auto fields, JsonFields::Of(*pattern, step.path()));
  TC_ASSIGN_OR_RETURN(const auto regex, fields.String("Regex"));
  if (!regex || behavior != "Isolated" || invert.value_or(false)) {
    return fmt::format("split {}", pattern->dump());
  }
  return "regex " + FoldContractions(Spell(*regex));
}

Result<std::string> DescribeStep(const JsonFields& step) {
  TC_ASSIGN_OR_RETURN(const auto type, step.RequireString("type"));
  if (type == "Split") return DescribeSplit(step);
  if (type == "ByteLevel") {
    TC_ASSIGN_OR_RETURN(const auto regex, step.Bool("use_regex"));
    TC_ASSIGN_OR_RETURN(const auto space, step.Bool("add_prefix_space"));
    return std::string(regex.value_or(true) ? kBytesGpt2 : kBytes) +
           (space.value_or(true) ? ", space in front" : "");
  }
  if (type == "Digits") {
    TC_ASSIGN_OR_RETURN(const auto each, step.Bool("individual_digits"));
    return std::string(each.value_or(false) ? kEachDigit : "digits");
  }
  return type;
}

Status DescribeInto(const Json& json, const std::string& path,
                    std::vector<std::string>& steps) {
  TC_ASSIGN_OR_RETURN(const auto fields, JsonFields::Of(json, path));
  TC_ASSIGN_OR_RETURN(const auto type, fields.RequireString("type"));
  if (type != "Sequence") {
    TC_ASSIGN_OR_RETURN(auto step, DescribeStep(fields));
    steps.push_back(std::move(step));
    return {};
  }
  const Json* list = fields.Find("pretokenizers");
  if (list == nullptr || !list->is_array()) {
    return fields.Wrong("pretokenizers", "must be a list");
  }
  // Depth is bounded: ParseJson refuses deep nesting.
  for (const Json& step : *list) {
    TC_RETURN_IF_ERROR(DescribeInto(step, path, steps));
  }
  return {};
}

}  // namespace

Result<std::string> NameOfPreTokenizer(const Json* json,
                                       const std::string& path) {
  std::vector<std::string> steps;
  if (json != nullptr) {
    TC_RETURN_IF_ERROR(DescribeInto(*json, path + ": pre_tokenizer", steps));
  }
  for (const Known& known : AllKnown()) {
    if (std::ranges::equal(known.steps, steps)) return std::string(known.name);
  }
  std::string told;
  for (const std::string& step : steps) {
    told += (told.empty() ? "" : ", ") + gguf::Quote(step);
  }
  return Fail(ErrorCode::kUnsupported, "{}: unknown pre-tokenizer: {}", path,
              told.empty() ? "none" : told);
}

}  // namespace thermocline::convert

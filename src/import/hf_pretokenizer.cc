#include "import/hf_pretokenizer.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/quote.h"
#include "text/pretokenizer_patterns.h"

namespace thermocline::importer {
namespace {

// Pre-tokenizers are compared as one line per step. A line says everything that
// changes where text is cut: the type and its settings, or a regex with
// characters outside of ASCII written as \x{...}.
constexpr const char* kByteLevel = "bytes";         // no cutting
constexpr const char* kBytesGpt2 = "bytes, gpt-2";  // GPT-2's regex
constexpr const char* kEachDigit = "digits, each";
constexpr const char* kDigitRuns = "digits";
constexpr const char* kPunctuationRuns = "punctuation, Contiguous";

// What the files have. text/ spells these its own way: white space, which
// counts as \s only, is not in its ranges, and it finds trailing spaces in
// linear time.
constexpr const char* kCjk =
    R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";
constexpr const char* kDeepSeekPunctuation =
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F})"
    R"(\x{3000}-\x{3002}]+)";

// As their files have it: text/ knows rules that cut the same.
constexpr const char* kDeepSeek3Cjk =
    R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
constexpr const char* kDeepSeek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)"
    R"(|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kBailingMoe =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr const char* kKimiK2 =
    R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?)"
    R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?)"
    R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

struct Known {
  const char* name;
  std::vector<std::string> steps;
};

std::string Cut(std::string_view regex) {
  return "regex " + std::string(regex);
}

const std::vector<Known>& AllKnown() {
  static const std::vector<Known> known = {
      {"gpt-2", {kBytesGpt2}},
      {"llama3", {Cut(text::kLlama3Pattern), kByteLevel}},
      {"qwen2", {Cut(text::kQwen2Pattern), kByteLevel}},
      {"qwen35", {Cut(text::kQwen35Pattern), kByteLevel}},
      {"tekken", {Cut(text::kTekkenPattern), kByteLevel}},
      {"gpt-4o", {Cut(text::kGpt4oPattern), kByteLevel}},
      {"kimi-k2", {Cut(kKimiK2), kByteLevel}},
      {"seed-coder", {Cut(text::kSeedCoderPattern), kByteLevel}},
      {"bailingmoe2", {Cut(kBailingMoe), kByteLevel}},
      {"minicpm5",
       {Cut(text::kThreeNumbersPattern), Cut(text::kMiniCpm5Pattern),
        kByteLevel}},
      {"smollm", {kEachDigit, kBytesGpt2}},
      {"falcon",
       {kPunctuationRuns, kBytesGpt2, kDigitRuns, Cut("[0-9][0-9][0-9]")}},
      {"deepseek-llm",
       {Cut(text::kLineBreakPattern), Cut(text::kDeepSeekLettersPattern),
        Cut(kDeepSeekPunctuation), Cut(R"(\s+$)"), Cut(kCjk), kEachDigit,
        kByteLevel}},
      {"deepseek-v3",
       {Cut(text::kThreeNumbersPattern), Cut(kDeepSeek3Cjk), Cut(kDeepSeek3),
        kByteLevel}},
      {"deepseek-coder",
       {Cut(text::kLineBreakPattern), Cut(R"(\s?\p{L}+)"), Cut(R"(\s?\p{P}+)"),
        Cut(kCjk), kEachDigit, kByteLevel}},
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

// With the contractions as text/ has them.
std::string WithShortContractions(std::string regex) {
  constexpr std::string_view kLong =
      "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])";
  for (size_t at = 0; (at = regex.find(kLong, at)) != std::string::npos;) {
    regex.replace(at, kLong.size(), text::kContractionsPattern);
  }
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
  return Cut(WithShortContractions(Spell(*regex)));
}

Result<std::string> DescribeStep(const JsonFields& step) {
  TC_ASSIGN_OR_RETURN(const auto type, step.RequireString("type"));
  if (type == "Split") return DescribeSplit(step);
  if (type == "ByteLevel") {
    TC_ASSIGN_OR_RETURN(const auto regex, step.Bool("use_regex"));
    TC_ASSIGN_OR_RETURN(const auto space, step.Bool("add_prefix_space"));
    return std::string(regex.value_or(true) ? kBytesGpt2 : kByteLevel) +
           (space.value_or(true) ? ", space in front" : "");
  }
  if (type == "Digits") {
    TC_ASSIGN_OR_RETURN(const auto each, step.Bool("individual_digits"));
    return std::string(each.value_or(false) ? kEachDigit : kDigitRuns);
  }
  if (type == "Punctuation") {
    TC_ASSIGN_OR_RETURN(const auto behavior, step.String("behavior"));
    return "punctuation, " + behavior.value_or("Isolated");
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
    told += (told.empty() ? "" : ", ") + Quote(step);
  }
  return Fail(ErrorCode::kUnsupported, "{}: unknown pre-tokenizer: {}", path,
              told.empty() ? "none" : told);
}

}  // namespace thermocline::importer

#include "text/pretokenizer.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/quote.h"
#include "text/pretokenizer_patterns.h"
#include "text/utf8.h"

namespace thermocline::text {
namespace {

// The patterns below are written as the field writes them. SpellOut replaces
// \s, \S and the classes of letters, numbers and the like by these sets,
// because the regex engine's own differ from those that models were trained
// with: its \s has U+180E, and its Unicode 14 lacks what came in 15.1.
constexpr std::string_view kSpaces =
    R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029})"
    R"(\x{202F}\x{205F}\x{3000})";
constexpr std::string_view kNewSmallLetters = R"(\x{1DF25}-\x{1DF2A})";
constexpr std::string_view kNewModifierLetters =
    R"(\x{1E030}-\x{1E06D}\x{1E4EB})";
constexpr std::string_view kNewOtherLetters =
    R"(\x{1123F}-\x{11240}\x{11F02}\x{11F04}-\x{11F10}\x{11F12}-\x{11F33})"
    R"(\x{1342F}\x{13441}-\x{13446}\x{1B132}\x{1B155}\x{1E4D0}-\x{1E4EA})"
    R"(\x{2B739}\x{2EBF0}-\x{2EE5D}\x{31350}-\x{323AF})";
constexpr std::string_view kNewNumbers =
    R"(\x{11F50}-\x{11F59}\x{1D2C0}-\x{1D2D3}\x{1E4F0}-\x{1E4F9})";
constexpr std::string_view kNewPunctuation =
    R"(\x{11B00}-\x{11B09}\x{11F43}-\x{11F4F})";
constexpr std::string_view kNewSymbols =
    R"(\x{2FFC}-\x{2FFF}\x{31EF}\x{1F6DC}\x{1F774}-\x{1F776})"
    R"(\x{1F77B}-\x{1F77F}\x{1F7D9}\x{1FA75}-\x{1FA77}\x{1FA87}\x{1FA88})"
    R"(\x{1FAAD}-\x{1FAAF}\x{1FABB}-\x{1FABD}\x{1FABF}\x{1FACE}\x{1FACF})"
    R"(\x{1FADA}\x{1FADB}\x{1FAE8}\x{1FAF7}\x{1FAF8})";
// Unicode's script, without the characters that only occur in it as well: the
// regex engine counts those too.
constexpr std::string_view kHan =
    R"(\x{2E80}-\x{2E99}\x{2E9B}-\x{2EF3}\x{2F00}-\x{2FD5}\x{3005}\x{3007})"
    R"(\x{3021}-\x{3029}\x{3038}-\x{303B}\x{3400}-\x{4DBF}\x{4E00}-\x{9FFF})"
    R"(\x{F900}-\x{FA6D}\x{FA70}-\x{FAD9}\x{16FE2}\x{16FE3}\x{16FF0}\x{16FF1})"
    R"(\x{20000}-\x{2A6DF}\x{2A700}-\x{2B739}\x{2B740}-\x{2B81D})"
    R"(\x{2B820}-\x{2CEA1}\x{2CEB0}-\x{2EBE0}\x{2EBF0}-\x{2EE5D})"
    R"(\x{2F800}-\x{2FA1D}\x{30000}-\x{3134A}\x{31350}-\x{323AF})";
constexpr std::string_view kNewMarks =
    R"(\x{CF3}\x{ECE}\x{10EFD}-\x{10EFF}\x{11241}\x{11F00}\x{11F01})"
    R"(\x{11F03}\x{11F34}-\x{11F3A}\x{11F3E}-\x{11F42}\x{13440})"
    R"(\x{13447}-\x{13455}\x{1E08F}\x{1E4EC}-\x{1E4EF})";

struct Shorthand {
  std::string_view written;
  std::array<std::string_view, 4> sets;  // together
  bool negated = false;                  // then only outside of [...]
};
constexpr std::array<Shorthand, 11> kShorthands = {
    {{R"(\s)", {kSpaces}},
     {R"(\S)", {kSpaces}, true},
     {R"(\p{L})",
      {R"(\p{L})", kNewSmallLetters, kNewModifierLetters, kNewOtherLetters}},
     {R"(\p{Ll})", {R"(\p{Ll})", kNewSmallLetters}},
     {R"(\p{Lm})", {R"(\p{Lm})", kNewModifierLetters}},
     {R"(\p{Lo})", {R"(\p{Lo})", kNewOtherLetters}},
     {R"(\p{N})", {R"(\p{N})", kNewNumbers}},
     {R"(\p{P})", {R"(\p{P})", kNewPunctuation}},
     {R"(\p{S})", {R"(\p{S})", kNewSymbols}},
     {R"(\p{M})", {R"(\p{M})", kNewMarks}},
     {R"(\p{Han})", {kHan}}}};

std::string SpellOut(std::string_view pattern) {
  std::string spelled;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size();) {
    const std::string_view rest = pattern.substr(i);
    const auto shorthand = std::find_if(
        kShorthands.begin(), kShorthands.end(),
        [rest](const Shorthand& s) { return rest.starts_with(s.written); });
    if (shorthand != kShorthands.end()) {
      if (!in_class) spelled += shorthand->negated ? "[^" : "[";
      for (const std::string_view set : shorthand->sets) spelled += set;
      if (!in_class) spelled += "]";
      i += shorthand->written.size();
      continue;
    }
    const size_t num_taken = pattern[i] == '\\' ? 2 : 1;
    if (pattern[i] == '[') in_class = true;
    if (pattern[i] == ']') in_class = false;
    spelled += pattern.substr(i, num_taken);
    i += num_taken;
  }
  return spelled;
}

constexpr const char* kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))";
constexpr const char* kOneNumber = R"(\p{N})";
constexpr const char* kThreeDigits = "[0-9][0-9][0-9]";
constexpr const char* kFalconPunctuation = R"([\p{P}\$\+<=>\^~\|`]+)";
constexpr const char* kDefaultPunctuation = R"([\p{P}\$\+<=>\^~\|]+)";

// Scripts without spaces between words. The range from U+0800 is as DeepSeek
// has it, minus the white space in it, which counts as \s only.
constexpr const char* kDeepSeekCjk =
    R"([\x{800}-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027}\x{202A}-\x{202E})"
    R"(\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{9FA5}\x{AC00}-\x{D7FF}]+)";
constexpr const char* kDeepSeekPunctuation =
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F})"
    R"(\x{3001}\x{3002}]+)";
// White space at the end. Matching only from where a run of it starts finds the
// same, without a second look at each of its characters.
constexpr const char* kTrailingSpaces = R"((?<!\s)\s+$)";

constexpr const char* kDeepSeek3Cjk =
    R"([\x{4E00}-\x{9FA5}\x{3040}-\x{30FF}]+)";
constexpr const char* kDeepSeek3 =
    R"([!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
    R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Runs without spaces and the stops of several scripts.
constexpr const char* kBloom =
    R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)";

// GPT-4o's with Han runs apart and no slashes behind symbols. The models' own
// pattern takes Han out of the classes of letters ("&&[^\p{Han}]"), which this
// engine cannot; looking ahead at each character would, and giving characters
// back one by one would then need memory for each. So what that comes to is
// written out, in runs that give nothing back: capitals and caseless letters up
// to small ones; else up to the last caseless one; else capitals alone.
constexpr const char* kKimiK2 =
    R"(\p{Han}+|[^\r\n\p{L}\p{N}]?)"
    R"((?:(?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])*+\p{Ll})"
    R"((?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])*+)"
    R"(|(?:[\p{Lu}\p{Lt}]*+(?:(?!\p{Han})[\p{Lm}\p{Lo}\p{M}])++)++))"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

struct Rules {
  std::array<std::string_view, 12> names;  // the rest is empty
  std::array<const char*, 6> stages;       // the rest is null
  bool ignore_merges = false;
  bool adds_bos = false;
};

constexpr Rules kRules[] = {
    {{"gpt-2", "mpt", "olmo", "jais", "phi-2", "roberta-bpe", "opt", "gigachat",
      "a.x-4.0", "mellum", "exaone4", "modern-bert"},
     {kGpt2}},
    {.names = {"llama3", "llama-v3", "llama-bpe", "falcon3", "pixtral",
               "midm-2.0", "falcon-h1", "lfm2"},
     .stages = {kLlama3Pattern},
     .ignore_merges = true,
     .adds_bos = true},
    {{"dbrx", "smaug", "smaug-bpe", "chatglm-bpe", "glm4"}, {kLlama3Pattern}},
    {.names = {"tekken"},
     .stages = {kTekkenPattern},
     .ignore_merges = true,
     .adds_bos = true},
    // Ling's own pattern (bailingmoe) is another, but cuts the same.
    {{"qwen2", "deepseek-r1-qwen", "megrez", "stablelm2", "kormo", "hunyuan",
      "solar-open", "f2llmv2", "grok-2", "bailingmoe", "bailingmoe2",
      "llada-moe"},
     {kQwen2Pattern}},
    {{"qwen35"}, {kQwen35Pattern}},
    {{"seed-coder"}, {kSeedCoderPattern}},
    {.names = {"minicpm5"},
     .stages = {kThreeNumbersPattern, kMiniCpm5Pattern},
     .ignore_merges = true},
    {{"gpt-4o", "llama4", "minimax-m2", "kanana2", "talkie"}, {kGpt4oPattern}},
    {{"kimi-k2"}, {kKimiK2}},
    {{"falcon"}, {kFalconPunctuation, kGpt2, kThreeDigits}},
    {{"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone",
      "minerva-7b", "mellum2"},
     {kOneNumber, kGpt2}},
    {.names = {"chameleon"},
     .stages = {"<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", R"([\t\n]|    |  )",
                kOneNumber, R"([\p{P}!-/:-@\[-`{-~])", kGpt2},
     .adds_bos = true},
    {{"bloom", "poro-chat", "gpt3-finnish"}, {kBloom}},
    {{"viking"}, {kBloom, kOneNumber}},
    {{"deepseek-llm"},
     {kLineBreakPattern, kDeepSeekLettersPattern, kDeepSeekPunctuation,
      kTrailingSpaces, kDeepSeekCjk, R"(\p{N}+)"}},
    {{"deepseek-v3", "hunyuan-dense", "joyai-llm"},
     {kThreeNumbersPattern, kDeepSeek3Cjk, kDeepSeek3}},
    {{"deepseek-coder"},
     {kLineBreakPattern, R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepSeekCjk,
      kOneNumber}},
    {{"default"}, {kDefaultPunctuation, kGpt2, R"(\p{N}+)", kThreeDigits}},
};

const Rules* FindRules(std::string_view name) {
  if (name.empty()) return nullptr;
  const auto* found = std::ranges::find_if(kRules, [name](const Rules& rules) {
    return std::ranges::find(rules.names, name) != rules.names.end();
  });
  return found == std::end(kRules) ? nullptr : found;
}

// Cuts one text, depth first, so that no list of pieces is ever held.
class Splitter {
 public:
  // `text` and `valid` have the same length; `valid` is UTF-8.
  Splitter(const std::vector<Regex>& stages, std::string_view text,
           std::string_view valid,
           const std::function<void(std::string_view)>& emit)
      : stages_(stages), text_(text), valid_(valid), emit_(emit) {}

  // Cuts [begin, end) by the stages from `stage` on.
  Status Cut(size_t stage, size_t begin, size_t end) {
    if (begin == end) return {};
    if (stage == stages_.size()) {
      emit_(text_.substr(begin, end - begin));
      return {};
    }
    const std::string_view subject = valid_.substr(begin, end - begin);
    size_t done = 0;  // relative to begin
    while (done < subject.size()) {
      TC_ASSIGN_OR_RETURN(const std::optional<RegexMatch> match,
                          stages_[stage].Find(subject, done, scratch_));
      if (!match || match->end <= match->begin) break;
      TC_RETURN_IF_ERROR(Cut(stage + 1, begin + done, begin + match->begin));
      TC_RETURN_IF_ERROR(
          Cut(stage + 1, begin + match->begin, begin + match->end));
      done = match->end;
    }
    return Cut(stage + 1, begin + done, end);
  }

 private:
  const std::vector<Regex>& stages_;
  const std::string_view text_, valid_;
  const std::function<void(std::string_view)>& emit_;
  RegexScratch scratch_;
};

}  // namespace

bool AddsBos(std::string_view pre_tokenizer) {
  const Rules* rules = FindRules(pre_tokenizer);
  return rules != nullptr && rules->adds_bos;
}

Result<PreTokenizer> PreTokenizer::Create(std::string_view name) {
  if (name.empty() || name == "default") {
    LogWarning(
        "the vocabulary does not name its pre-tokenizer; the default rules fit "
        "few models and may degrade this one's answers (an old conversion?)");
    name = "default";
  }
  const Rules* rules = FindRules(name);
  if (rules == nullptr) {
    return Fail(ErrorCode::kUnsupported, "unknown pre-tokenizer {}",
                Quote(name));
  }
  PreTokenizer pre_tokenizer;
  pre_tokenizer.ignore_merges_ = rules->ignore_merges;
  for (const char* stage : rules->stages) {
    if (stage == nullptr) break;
    TC_ASSIGN_OR_RETURN(Regex regex,
                        Regex::Compile(SpellOut(stage), RegexLimits::kNone));
    pre_tokenizer.stages_.push_back(std::move(regex));
  }
  return pre_tokenizer;
}

Status PreTokenizer::ForEachWord(
    std::string_view text,
    const std::function<void(std::string_view)>& emit) const {
  if (IsValidUtf8(text)) {
    return Splitter(stages_, text, text, emit).Cut(0, 0, text.size());
  }
  const std::string masked = MaskInvalidUtf8(text);
  return Splitter(stages_, text, masked, emit).Cut(0, 0, text.size());
}

}  // namespace thermocline::text

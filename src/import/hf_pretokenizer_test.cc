#include "import/hf_pretokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "text/pretokenizer.h"

namespace thermocline::importer {
namespace {

Json ByteLevel(bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

Json Split(const std::string& regex) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", regex}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

Json Digits() { return {{"type", "Digits"}, {"individual_digits", true}}; }

Json PretokenizerSequence(const Json& steps) {
  return {{"type", "Sequence"}, {"pretokenizers", steps}};
}

// As these families' tokenizer.json files have them.
constexpr char kLlama3[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kQwen2[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kTekken[] =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?)"
    R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const char kCjk[] = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+";
const char kDeepSeekPunctuation[] =
    "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+";

std::string NameOf(const Json& json) {
  const auto name = NameOfPreTokenizer(&json, "t.json");
  return name ? *name : "error: " + name.error().message;
}

void ExpectUnknown(const Json& json, const std::string& part) {
  const auto name = NameOfPreTokenizer(&json, "t.json");
  ASSERT_FALSE(name.has_value()) << *name;
  EXPECT_EQ(name.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(name.error().message.find(part), std::string::npos)
      << name.error().message;
}

TEST(HfPreTokenizerTest, Gpt2) {
  EXPECT_EQ(NameOf(ByteLevel(true)), "gpt-2");
  EXPECT_EQ(NameOf(PretokenizerSequence(Json::array({ByteLevel(true)}))),
            "gpt-2");
  Json old = ByteLevel(true);
  old.erase("use_regex");  // the default
  EXPECT_EQ(NameOf(old), "gpt-2");
}

TEST(HfPreTokenizerTest, Llama3AndQwen2) {
  EXPECT_EQ(NameOf(PretokenizerSequence({Split(kLlama3), ByteLevel(false)})),
            "llama3");
  EXPECT_EQ(NameOf(PretokenizerSequence({Split(kQwen2), ByteLevel(false)})),
            "qwen2");
  std::string spelled = kLlama3;
  spelled.replace(0, spelled.find(")") + 1,
                  "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])");
  EXPECT_EQ(NameOf(PretokenizerSequence({Split(spelled), ByteLevel(false)})),
            "llama3");
}

TEST(HfPreTokenizerTest, Tekken) {
  EXPECT_EQ(NameOf(PretokenizerSequence({Split(kTekken), ByteLevel(false)})),
            "tekken");
}

// One expression, and bytes.
TEST(HfPreTokenizerTest, TodaysModels) {
  const std::string words =
      R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*)"
      R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
      R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+)"
      R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)";
  std::string words_without_han = "[\\p{Han}]+|" + words;
  for (size_t at = 0;
       (at = words_without_han.find("\\p{M}]", at)) != std::string::npos;
       at += 18) {
    words_without_han.insert(at + 5, "&&[^\\p{Han}]");
  }
  const std::string spaces = R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
  const std::string contractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|";
  const std::pair<const char*, std::string> cases[] = {
      {"qwen35", contractions +
                     R"([^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
                     R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)" +
                     spaces},
      {"gpt-4o", words + R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" + spaces},
      {"kimi-k2",
       words_without_han + R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)" + spaces},
      {"seed-coder", contractions +
                         R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1})"
                         R"(| ?[^\s\p{L}\p{N}\r\n]+)" +
                         spaces},
      {"bailingmoe2",
       R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N})"
       R"(| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"}};
  for (const auto& [name, regex] : cases) {
    EXPECT_EQ(NameOf(PretokenizerSequence({Split(regex), ByteLevel(false)})),
              name);
  }
  const std::string rest =
      contractions +
      R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*)" + spaces;
  EXPECT_EQ(NameOf(PretokenizerSequence(
                {Split("\\p{N}{1,3}"), Split(rest), ByteLevel(false)})),
            "minicpm5");
}

TEST(HfPreTokenizerTest, DigitsThenGpt2) {
  EXPECT_EQ(NameOf(PretokenizerSequence({Digits(), ByteLevel(true)})),
            "smollm");
}

TEST(HfPreTokenizerTest, Falcon) {
  const Json punctuation = {{"type", "Punctuation"},
                            {"behavior", "Contiguous"}};
  const Json runs = {{"type", "Digits"}, {"individual_digits", false}};
  const Json threes = Split("[0-9][0-9][0-9]");
  EXPECT_EQ(NameOf(PretokenizerSequence(
                {punctuation, ByteLevel(true), runs, threes})),
            "falcon");
  Json isolated = punctuation;
  isolated["behavior"] = "Isolated";
  EXPECT_NE(
      NameOf(PretokenizerSequence({isolated, ByteLevel(true), runs, threes}))
          .find("punctuation, Isolated"),
      std::string::npos);
}

TEST(HfPreTokenizerTest, DeepSeekCoder) {
  // The line break is a class of two real characters there.
  EXPECT_EQ(NameOf(PretokenizerSequence({Split("[\r\n]"), Split(R"(\s?\p{L}+)"),
                                         Split(R"(\s?\p{P}+)"), Split(kCjk),
                                         Digits(), ByteLevel(false)})),
            "deepseek-coder");
}

TEST(HfPreTokenizerTest, DeepSeekLlm) {
  const std::string letters =
      "\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-"
      "\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-"
      "\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5"
      "\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5"
      "\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77"
      "\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d"
      "\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-"
      "\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb"
      "\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113"
      "\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134"
      "\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b"
      "\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b"
      "\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06"
      "\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f"
      "\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2"
      "\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943]+";
  EXPECT_EQ(NameOf(PretokenizerSequence(
                {Split("[\r\n]"), Split(letters), Split(kDeepSeekPunctuation),
                 Split("\\s+$"), Split(kCjk), Digits(), ByteLevel(false)})),
            "deepseek-llm");
}

TEST(HfPreTokenizerTest, DeepSeekV3) {
  const std::string words =
      "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
      "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*"
      "|\\s*[\r\n]+|\\s+(?!\\S)|\\s+";
  const Json numbers = Split("\\p{N}{1,3}");
  const Json cjk = Split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+");
  EXPECT_EQ(NameOf(PretokenizerSequence(
                {numbers, cjk, Split(words), ByteLevel(false)})),
            "deepseek-v3");
  ExpectUnknown(
      PretokenizerSequence({cjk, numbers, Split(words), ByteLevel(false)}),
      "4E00");
}

TEST(HfPreTokenizerTest, EveryNameIsKnownToTheTokenizer) {
  for (const char* name :
       {"gpt-2", "llama3", "qwen2", "tekken", "smollm", "falcon",
        "deepseek-llm", "deepseek-coder", "qwen35", "gpt-4o", "kimi-k2",
        "deepseek-v3", "seed-coder", "bailingmoe2", "minicpm5"}) {
    EXPECT_TRUE(text::PreTokenizer::Create(name).has_value()) << name;
  }
}

TEST(HfPreTokenizerTest, AnythingElseIsQuoted) {
  ExpectUnknown(PretokenizerSequence({Split("[a-z]+"), ByteLevel(false)}),
                "[a-z]+");
  ExpectUnknown(PretokenizerSequence({Split(kLlama3), ByteLevel(true)}),
                "gpt-2");
  ExpectUnknown(ByteLevel(false), "bytes");
  ExpectUnknown({{"type", "Metaspace"}}, "Metaspace");
  Json spaced = ByteLevel(true);
  spaced["add_prefix_space"] = true;
  ExpectUnknown(spaced, "space in front");
  Json inverted = Split(kQwen2);
  inverted["invert"] = true;
  ExpectUnknown(PretokenizerSequence({inverted, ByteLevel(false)}), "split");
  Json removed = Split(kQwen2);
  removed["behavior"] = "Removed";
  ExpectUnknown(PretokenizerSequence({removed, ByteLevel(false)}), "split");
  Json literal = Split("x");
  literal["pattern"] = {{"String", "x"}};
  ExpectUnknown(PretokenizerSequence({literal, ByteLevel(false)}), "split");
  EXPECT_EQ(NameOfPreTokenizer(nullptr, "t.json").error().code,
            ErrorCode::kUnsupported);
}

TEST(HfPreTokenizerTest, SenselessStepsAreCorrupt) {
  for (const Json& json :
       {Json(3), Json::object(), Json{{"type", 1}}, Json{{"type", "Sequence"}},
        PretokenizerSequence(Json::array({1})), Json{{"type", "Split"}},
        Json{{"type", "Split"}, {"behavior", "Isolated"}},
        Json{{"type", "ByteLevel"}, {"use_regex", 1}}}) {
    const auto name = NameOfPreTokenizer(&json, "t.json");
    ASSERT_FALSE(name.has_value()) << json.dump();
    EXPECT_EQ(name.error().code, ErrorCode::kCorrupt) << json.dump();
  }
}

}  // namespace
}  // namespace thermocline::importer

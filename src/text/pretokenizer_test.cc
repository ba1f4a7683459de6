#include "text/pretokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/random.h"
#include "text/regex.h"

namespace thermocline::text {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Split(const PreTokenizer& pre_tokenizer,
                               std::string_view text) {
  std::vector<std::string> words;
  const Status done = pre_tokenizer.ForEachWord(
      text, [&](std::string_view word) { words.emplace_back(word); });
  if (!done) return {done.error().message};
  return words;
}

std::vector<std::string> Split(std::string_view name, std::string_view text) {
  const auto pre_tokenizer = PreTokenizer::Create(name);
  if (!pre_tokenizer) return {pre_tokenizer.error().message};
  return Split(*pre_tokenizer, text);
}

// Each of the pieces cut into what matches and what is between.
std::vector<std::string> Isolate(const Regex& regex,
                                 const std::vector<std::string>& pieces) {
  std::vector<std::string> cut;
  RegexScratch scratch;
  for (const std::string& piece : pieces) {
    size_t done = 0;
    while (done < piece.size()) {
      const auto match = regex.Find(piece, done, scratch);
      if (!match || !*match) break;
      if ((*match)->begin > done) {
        cut.push_back(piece.substr(done, (*match)->begin - done));
      }
      cut.push_back(
          piece.substr((*match)->begin, (*match)->end - (*match)->begin));
      done = (*match)->end;
    }
    if (done < piece.size()) cut.push_back(piece.substr(done));
  }
  return cut;
}

TEST(PreTokenizerTest, Gpt2) {
  EXPECT_THAT(Split("gpt-2", "Hello, it's 2024!"),
              ElementsAre("Hello", ",", " it", "'s", " 2024", "!"));
  EXPECT_THAT(Split("gpt-2", "a  b\n\n c "),
              ElementsAre("a", " ", " b", "\n\n", " c", " "));
  EXPECT_THAT(Split("gpt-2", "I'LL they'll 'tis"),
              ElementsAre("I", "'", "LL", " they", "'ll", " '", "tis"));
  EXPECT_THAT(Split("gpt-2", "\ta"), ElementsAre("\t", "a"));
  EXPECT_THAT(Split("gpt-2", "größe中文½٣"), ElementsAre("größe中文", "½٣"));
  EXPECT_THAT(Split("gpt-2", "a\u0301 x"), ElementsAre("a", "\u0301", " x"));
  EXPECT_THAT(Split("gpt-2", "     "), ElementsAre("     "));
  EXPECT_THAT(Split("gpt-2", ""), ElementsAre());
}

TEST(PreTokenizerTest, Llama3) {
  EXPECT_THAT(
      Split("llama3", "Hello I'LL (be) 12345"),
      ElementsAre("Hello", " I", "'LL", " (", "be", ")", " ", "123", "45"));
  EXPECT_THAT(Split("llama-bpe", "a \n\n  b"),
              ElementsAre("a", " \n\n", " ", " b"));
  EXPECT_THAT(Split("llama-bpe", "x!!\r\n\ty"),
              ElementsAre("x", "!!\r\n", "\ty"));
  EXPECT_THAT(Split("llama-bpe", "(word $word"),
              ElementsAre("(word", " $", "word"));
  EXPECT_THAT(Split("llama-bpe", "end "), ElementsAre("end", " "));
}

TEST(PreTokenizerTest, Qwen2TakesDigitsOneByOne) {
  EXPECT_THAT(Split("qwen2", "You'Re 123 (a)\n"),
              ElementsAre("You", "'Re", " ", "1", "2", "3", " (", "a", ")\n"));
}

// Names that mean the rules of another.
struct OtherName {
  const char* name;
  const char* like;
  bool takes_whole_words = false;
  bool adds_bos = false;
};

constexpr OtherName kOtherNames[] = {
    {"mpt", "gpt-2"},
    {"olmo", "gpt-2"},
    {"jais", "gpt-2"},
    {"phi-2", "gpt-2"},
    {"roberta-bpe", "gpt-2"},
    {"opt", "gpt-2"},
    {"gigachat", "gpt-2"},
    {"a.x-4.0", "gpt-2"},
    {"mellum", "gpt-2"},
    {"exaone4", "gpt-2"},
    {"modern-bert", "gpt-2"},
    {"llama-v3", "llama3", true, true},
    {"llama-bpe", "llama3", true, true},
    {"falcon3", "llama3", true, true},
    {"pixtral", "llama3", true, true},
    {"midm-2.0", "llama3", true, true},
    {"falcon-h1", "llama3", true, true},
    {"lfm2", "llama3", true, true},
    {"dbrx", "llama3"},
    {"smaug", "llama3"},
    {"smaug-bpe", "llama3"},
    {"chatglm-bpe", "llama3"},
    {"glm4", "llama3"},
    {"deepseek-r1-qwen", "qwen2"},
    {"megrez", "qwen2"},
    {"stablelm2", "qwen2"},
    {"kormo", "qwen2"},
    {"hunyuan", "qwen2"},
    {"solar-open", "qwen2"},
    {"f2llmv2", "qwen2"},
    {"grok-2", "qwen2"},
    {"bailingmoe", "qwen2"},
    {"bailingmoe2", "qwen2"},
    {"llada-moe", "qwen2"},
    {"llama4", "gpt-4o"},
    {"minimax-m2", "gpt-4o"},
    {"kanana2", "gpt-4o"},
    {"talkie", "gpt-4o"},
    {"refact", "starcoder"},
    {"command-r", "starcoder"},
    {"smollm", "starcoder"},
    {"codeshell", "starcoder"},
    {"exaone", "starcoder"},
    {"minerva-7b", "starcoder"},
    {"mellum2", "starcoder"},
    {"poro-chat", "bloom"},
    {"gpt3-finnish", "bloom"},
    {"hunyuan-dense", "deepseek-v3"},
    {"joyai-llm", "deepseek-v3"},
};

// No two rules cut these alike.
constexpr std::string_view kTellingTexts =
    "Hello I'LL it's camelCase (be) 12345 $6x+y ++ //\n\n a!\n\tb  \r\n c"
    "\u4e16\u754cab\u3005 ae\u0301 \u00e9x\u0301 don't.\u3002 <sentinel:12> "
    " 7";

TEST(PreTokenizerTest, OtherNamesMeanTheSameRules) {
  for (const OtherName& other : kOtherNames) {
    SCOPED_TRACE(other.name);
    EXPECT_EQ(Split(other.name, kTellingTexts),
              Split(other.like, kTellingTexts));
    const auto pre_tokenizer = PreTokenizer::Create(other.name);
    ASSERT_TRUE(pre_tokenizer);
    EXPECT_EQ(pre_tokenizer->ignore_merges(), other.takes_whole_words);
    EXPECT_EQ(AddsBos(other.name), other.adds_bos);
  }
}

TEST(PreTokenizerTest, EveryRuleCutsItsOwnWay) {
  std::map<std::vector<std::string>, std::string> seen;
  for (const char* name :
       {"gpt-2", "llama3", "tekken", "qwen2", "qwen35", "seed-coder",
        "minicpm5", "gpt-4o", "kimi-k2", "falcon", "starcoder", "chameleon",
        "bloom", "viking", "deepseek-llm", "deepseek-v3", "deepseek-coder",
        "default"}) {
    const auto [known, is_new] =
        seen.try_emplace(Split(name, kTellingTexts), name);
    EXPECT_TRUE(is_new) << name << " cuts as " << known->second;
  }
}

TEST(PreTokenizerTest, ContractionsInAnyCase) {
  // The long s is a small letter of S.
  EXPECT_THAT(Split("qwen2", "it'\u017Fx"), ElementsAre("it", "'\u017F", "x"));
  EXPECT_THAT(Split("gpt-4o", "it'\u017F"), ElementsAre("it'\u017F"));
}

TEST(PreTokenizerTest, Qwen35KeepsMarksInWords) {
  EXPECT_THAT(
      Split("qwen35", "ae\u0301 x\u0301y !\u0301 12"),
      ElementsAre("ae\u0301", " x\u0301y", " !", "\u0301", " ", "1", "2"));
  EXPECT_THAT(Split("qwen2", "ae\u0301x"), ElementsAre("ae", "\u0301x"));
}

TEST(PreTokenizerTest, Gpt4oCutsWhereCapitalsBegin) {
  EXPECT_THAT(Split("gpt-4o", "camelCase DON'T it's 1234/\n //\n\u4e16e\u0301"),
              ElementsAre("camel", "Case", " DON'T", " it's", " ", "123", "4",
                          "/\n", " //\n", "\u4e16e\u0301"));
}

TEST(PreTokenizerTest, KimiK2CutsHanFromOtherLetters) {
  EXPECT_THAT(Split("kimi-k2", "\u4e16\u754cabC\u3005\u306e\u4e16 //\n/'s"),
              ElementsAre("\u4e16\u754c", "ab", "C", "\u3005", "\u306e",
                          "\u4e16", " //\n", "/'", "s"));
  // Of Unicode 15; a radical, which is a symbol, alone and behind another.
  EXPECT_THAT(Split("kimi-k2", "x\U00031350 \u2E80 !\u2E80"),
              ElementsAre("x", "\U00031350", " \u2E80", " !\u2E80"));
}

// The rule as the model has it, character by character with steps back.
TEST(PreTokenizerTest, KimiK2CutsAsItsOwnPatternDoes) {
  const std::string han = "[\\x{4E00}-\\x{9FFF}\\x{2E80}-\\x{2E99}]";
  const std::string big =
      "(?:(?!" + han + ")[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}])";
  const std::string small = "(?:(?!" + han + ")[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}])";
  const std::string before = "[^\\r\\n\\p{L}\\p{N}]?";
  const std::string behind = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?";
  const auto own = Regex::Compile(
      han + "+|" + before + big + "*" + small + "+" + behind + "|" + before +
          big + "+" + small + "*" + behind +
          R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
      RegexLimits::kUsual);
  ASSERT_TRUE(own) << own.error().message;
  const auto kimi = PreTokenizer::Create("kimi-k2");
  ASSERT_TRUE(kimi);
  const std::string_view letters[] = {"a",      "b", "A", "B",     "\u306e",
                                      "\u0301", " ", "!", "\n",    "'s",
                                      "\u4e16", "1", "/", "\u2E80"};
  Random random(11);
  RegexScratch scratch;
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (uint64_t n = random.Below(12); n > 0; --n) {
      text += letters[random.Below(std::size(letters))];
    }
    std::vector<std::string> expected;
    for (size_t at = 0; at < text.size();) {
      const auto match = own->Find(text, at, scratch);
      ASSERT_TRUE(match && *match && (*match)->begin == at) << text;
      expected.push_back(text.substr(at, (*match)->end - at));
      at = (*match)->end;
    }
    ASSERT_EQ(Split(*kimi, text), expected) << text;
  }
}

TEST(PreTokenizerTest, SeedCoderKeepsLineBreaksFromSymbols) {
  EXPECT_THAT(Split("seed-coder", "a!\n\nb 12 I'Ll"),
              ElementsAre("a", "!", "\n\n", "b", " ", "1", "2", " I", "'Ll"));
}

TEST(PreTokenizerTest, MiniCpm5TakesDigitsFirst) {
  EXPECT_THAT(Split("minicpm5", "x  1234!\n I'Ll"),
              ElementsAre("x", "  ", "123", "4", "!\n", " I", "'Ll"));
}

TEST(PreTokenizerTest, Falcon) {
  EXPECT_THAT(
      Split("falcon", "a+b (12345) $9"),
      ElementsAre("a", "+", "b", " ", "(", "123", "45", ")", " ", "$", "9"));
  EXPECT_THAT(Split("falcon", "don't `x`"),
              ElementsAre("don", "'", "t", " ", "`", "x", "`"));
  EXPECT_THAT(Split("falcon", "x 123456 y"),
              ElementsAre("x", " ", "123", "456", " y"));
}

TEST(PreTokenizerTest, StarcoderTakesDigitsFirst) {
  EXPECT_THAT(Split("starcoder", "x = 42;"),
              ElementsAre("x", " =", " ", "4", "2", ";"));
  // White space in front of a digit is at the end of its piece.
  EXPECT_THAT(Split("starcoder", "a   1"), ElementsAre("a", "   ", "1"));
}

TEST(PreTokenizerTest, TekkenCutsWhereCapitalsBegin) {
  EXPECT_THAT(Split("tekken", "camelCase HelloWORLD don't 12 a/\n"),
              ElementsAre("camel", "Case", " Hello", "WORLD", " don", "'t", " ",
                          "1", "2", " a", "/\n"));
  EXPECT_THAT(
      Split("tekken", "\u00c0\u00e9\u00c9 \u4e16e\u0301x  y"),
      ElementsAre("\u00c0\u00e9", "\u00c9", " \u4e16e\u0301x", " ", " y"));
}

TEST(PreTokenizerTest, Chameleon) {
  EXPECT_THAT(
      Split("chameleon", "a  b1!?\n it's"),
      ElementsAre("a", "  ", "b", "1", "!", "?", "\n", " it", "'", "s"));
  EXPECT_THAT(
      Split("chameleon", "xIMGIMGABZy<sentinel:12>"),
      ElementsAre("x", "IMGIMGABZ", "y", "<", "sentinel", ":", "1", "2", ">"));
}

TEST(PreTokenizerTest, BloomCutsAtStops) {
  EXPECT_THAT(
      Split("bloom", "Hello, you (x1)\u3002\u4e16 "),
      ElementsAre("Hello", ",", " you", " (", "x1", ")\u3002", "\u4e16", " "));
  EXPECT_THAT(Split("viking", "ab12 c"), ElementsAre("ab", "1", "2", " c"));
}

TEST(PreTokenizerTest, DeepSeekV3) {
  EXPECT_THAT(Split("deepseek-v3", "x1234 =foo \u4e16\u306e! (bar\n"),
              ElementsAre("x", "123", "4", " =", "foo", " ", "\u4e16\u306e",
                          "!", " (", "bar", "\n"));
  EXPECT_THAT(Split("deepseek-v3", "a(bar"), ElementsAre("a", "(bar"));
}

// The three expressions as the model's tokenizer.json has them.
TEST(PreTokenizerTest, DeepSeekV3CutsAsItsOwnPatternsDo) {
  std::vector<Regex> own;
  for (const char* pattern :
       {"\\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
        "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
        "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*"
        "|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"}) {
    auto regex = Regex::Compile(pattern, RegexLimits::kUsual);
    ASSERT_TRUE(regex) << regex.error().message;
    own.push_back(*std::move(regex));
  }
  const auto deep_seek = PreTokenizer::Create("deepseek-v3");
  ASSERT_TRUE(deep_seek);
  std::vector<std::string> letters = {
      "\u4dff", "\u4e00", "\u9fa5", "\u9fa6", "\u303f", "\u3040", "\u30ff",
      "\u3100", "\u0301", "\u00e9", "\u00bd", "\u3000", "\r\n"};
  for (char c = 1; c < 127; ++c) letters.emplace_back(1, c);
  Random random(12);
  for (int round = 0; round < 1500; ++round) {
    std::string text;
    for (uint64_t n = random.Below(12); n > 0; --n) {
      text += letters[random.Below(letters.size())];
    }
    std::vector<std::string> expected = {text};
    for (const Regex& regex : own) expected = Isolate(regex, expected);
    ASSERT_EQ(Split(*deep_seek, text), expected) << text;
  }
}

TEST(PreTokenizerTest, DeepSeekLlm) {
  EXPECT_THAT(
      Split("deepseek-llm", "Hello, 世界 123!\n\nx"),
      ElementsAre("Hello", ",", " ", "世界", " ", "123", "!", "\n", "\n", "x"));
  EXPECT_THAT(Split("deepseek-llm", "a b  "), ElementsAre("a", " b", "  "));
  EXPECT_THAT(Split("deepseek-llm", "  a"), ElementsAre(" ", " a"));
  EXPECT_THAT(Split("deepseek-llm", "日\u3000本、"),
              ElementsAre("日", "\u3000", "本", "、"));
}

TEST(PreTokenizerTest, DeepSeekCoder) {
  EXPECT_THAT(
      Split("deepseek-coder", "int x1 = 10;\n\t//ü"),
      ElementsAre("int", " x", "1", " = ", "1", "0", ";", "\n", "\t//", "ü"));
}

TEST(PreTokenizerTest, DefaultWarns) {
  std::vector<std::string> warnings;
  SetLogSink([&](LogLevel level, std::string_view line) {
    if (level == LogLevel::kWarning) warnings.emplace_back(line);
  });
  EXPECT_THAT(
      Split("", "a|b 1234x (y)"),
      ElementsAre("a", "|", "b", " ", "123", "4", "x", " ", "(", "y", ")"));
  EXPECT_THAT(Split("default", "ab"), ElementsAre("ab"));
  EXPECT_THAT(Split("gpt-2", "ab"), ElementsAre("ab"));
  SetLogSink({});
  EXPECT_EQ(warnings.size(), 2u);
}

TEST(PreTokenizerTest, UnknownNameIsNamed) {
  const auto pre_tokenizer = PreTokenizer::Create("klingon");
  ASSERT_FALSE(pre_tokenizer);
  EXPECT_EQ(pre_tokenizer.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(pre_tokenizer.error().message.find("klingon"), std::string::npos);
}

TEST(PreTokenizerTest, UnknownNamesAreQuoted) {
  const auto pre_tokenizer =
      PreTokenizer::Create("\x1b[2J" + std::string(100'000, 'x'));
  ASSERT_FALSE(pre_tokenizer.has_value());
  EXPECT_EQ(pre_tokenizer.error().message.find('\x1b'), std::string::npos);
  EXPECT_LT(pre_tokenizer.error().message.size(), 200u);
}

TEST(PreTokenizerTest, OnlySomeTakeWholeWords) {
  for (const char* name : {"llama3", "tekken", "minicpm5"}) {
    EXPECT_TRUE(PreTokenizer::Create(name)->ignore_merges()) << name;
  }
  for (const char* name : {"gpt-2", "qwen2", "qwen35", "gpt-4o", "kimi-k2",
                           "seed-coder", "deepseek-v3"}) {
    EXPECT_FALSE(PreTokenizer::Create(name)->ignore_merges()) << name;
  }
}

TEST(PreTokenizerTest, OnlySomeAddBos) {
  for (const char* name : {"llama3", "tekken", "chameleon"}) {
    EXPECT_TRUE(AddsBos(name)) << name;
  }
  for (const char* name : {"gpt-2", "default", "", "klingon", "qwen35",
                           "gpt-4o", "kimi-k2", "minicpm5"}) {
    EXPECT_FALSE(AddsBos(name)) << name;
  }
}

TEST(PreTokenizerTest, UnicodeAsModelsWereTrainedWithIt) {
  // U+180E is no space since Unicode 6.3; U+0085 is one.
  EXPECT_THAT(Split("gpt-2", "a\u180Eb"), ElementsAre("a", "\u180E", "b"));
  EXPECT_THAT(Split("gpt-2", "!\u0085\u0085!"),
              ElementsAre("!", "\u0085", "\u0085", "!"));
  // Ideographs of Unicode 15, numbers of 15.
  EXPECT_THAT(Split("gpt-2", "x\U00031350\U00011F50!"),
              ElementsAre("x\U00031350", "\U00011F50", "!"));
  EXPECT_THAT(Split("falcon", "a\U00011F43"), ElementsAre("a", "\U00011F43"));
  // An ideograph, a modifier letter and a small letter of 15.
  EXPECT_THAT(
      Split("tekken", "x\U00031350 x\U0001E030 xX\U0001DF25X"),
      ElementsAre("x\U00031350", " x\U0001E030", " x", "X\U0001DF25", "X"));
  // Symbols and marks of 15 and 15.1.
  EXPECT_THAT(Split("deepseek-v3", " \U0001FABF \u31EF x\u0CF3 \U00011F03"),
              ElementsAre(" \U0001FABF", " \u31EF", " x\u0CF3", " \U00011F03"));
}

TEST(PreTokenizerTest, InvalidBytesAreSymbols) {
  EXPECT_THAT(Split("gpt-2", "ab\xff\xfe c\xc3"),
              ElementsAre("ab", "\xff\xfe", " c", "\xc3"));
  EXPECT_THAT(Split("llama-bpe", " \x80\x80\n"), ElementsAre(" \x80\x80\n"));
}

TEST(PreTokenizerTest, WordsJoinedAreTheText) {
  Random random(4);
  for (const char* name :
       {"gpt-2", "llama3", "qwen2", "falcon", "starcoder", "deepseek-llm",
        "deepseek-coder", "default", "qwen35", "gpt-4o", "kimi-k2",
        "seed-coder", "minicpm5", "deepseek-v3", "tekken", "bloom"}) {
    const auto pre_tokenizer = PreTokenizer::Create(name);
    ASSERT_TRUE(pre_tokenizer);
    for (int round = 0; round < 200; ++round) {
      std::string text(random.Below(60), '\0');
      const uint64_t range = round % 2 == 0 ? 256 : 128;
      for (char& c : text) c = static_cast<char>(random.Below(range));
      std::string joined;
      for (const std::string& word : Split(*pre_tokenizer, text)) {
        ASSERT_FALSE(word.empty());
        joined += word;
      }
      ASSERT_EQ(joined, text) << name;
    }
  }
}

}  // namespace
}  // namespace thermocline::text

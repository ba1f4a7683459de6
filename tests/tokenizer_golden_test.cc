// Token ids that llama.cpp gives for 46 strings, vocabulary by vocabulary; and
// those that the models' own tokenizers of 2025 and 2026 give for 72.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "gguf/gguf.h"
#include "model/vocab_metadata.h"
#include "text/test_golden.h"
#include "text/tiktoken.h"
#include "text/tokenizer.h"

namespace thermocline {
namespace {

using text::Fixture;
using text::Golden;
using text::kNumCases;
using text::ReadFile;
using text::SplitBy;
using text::StreamDecoder;
using text::TokenId;
using text::Tokenizer;
using text::TokenType;
using text::Vocab;
using text::VocabKind;
using Ids = std::vector<TokenId>;

Result<Vocab> VocabOfFile(const std::string& path) {
  TC_ASSIGN_OR_RETURN(const auto file, gguf::File::Open(path));
  TC_ASSIGN_OR_RETURN(std::optional<Vocab> vocab, model::ReadVocab(*file));
  if (!vocab) return Fail(ErrorCode::kNotFound, "{}: no vocabulary", path);
  return *std::move(vocab);
}

Result<Vocab> VocabOfGguf(const std::string& name) {
  return VocabOfFile(Golden("ggml-vocab-" + name + ".gguf"));
}

Result<Vocab> VocabOfTiktoken(const std::string& path, const char* pre) {
  TC_ASSIGN_OR_RETURN(text::TiktokenTable table,
                      text::ParseTiktoken(ReadFile(path)));
  Vocab vocab;
  vocab.kind = VocabKind::kBpe;
  vocab.pre = pre;
  vocab.tokens = std::move(table.tokens);
  vocab.merges = std::move(table.merges);
  return vocab;
}

// RoBERTa and OPT: GPT-2's pieces under other ids.
Result<Vocab> VocabOfOpt() {
  Vocab vocab;
  vocab.kind = VocabKind::kBpe;
  vocab.pre = "roberta-bpe";
  vocab.merges = SplitBy(ReadFile(Golden("gpt2/merges.txt")), "\n");
  if (!vocab.merges.empty()) vocab.merges.erase(vocab.merges.begin());
  const auto ids = nlohmann::json::parse(
      ReadFile(Golden("opt/gpt2-vocab.json")), nullptr, false);
  vocab.tokens.resize(ids.size());
  for (const auto& [token, id] : ids.items()) {
    vocab.tokens[id.get<size_t>()] = token;
  }
  vocab.types.assign(vocab.tokens.size(), TokenType::kNormal);
  for (size_t id = 0; id < 4; ++id) vocab.types[id] = TokenType::kControl;
  return vocab;
}

struct Cases {
  size_t count;
  std::string texts, ids;  // files
};

// Checks every case, and that each decodes to its text.
void ExpectIds(const Cases& cases, const Result<Vocab>& vocab) {
  ASSERT_TRUE(vocab) << vocab.error().message;
  const auto made = Tokenizer::Create(*vocab);
  ASSERT_TRUE(made) << made.error().message;
  const Tokenizer& tokenizer = **made;
  const auto texts = SplitBy(ReadFile(cases.texts), "\n__ggml_vocab_test__\n");
  const auto lines = SplitBy(ReadFile(cases.ids), "\n");
  ASSERT_EQ(texts.size(), cases.count);
  ASSERT_EQ(lines.size(), cases.count);
  for (size_t i = 0; i < cases.count; ++i) {
    std::istringstream line(lines[i]);
    const Ids expected{std::istream_iterator<TokenId>(line), {}};
    const auto ids = tokenizer.Encode(texts[i], {false, false});
    ASSERT_TRUE(ids) << ids.error().message;
    EXPECT_EQ(*ids, expected) << "case " << i << ": " << texts[i];
    EXPECT_EQ(tokenizer.Decode(*ids, false), texts[i]) << "case " << i;
  }
}

void ExpectGolden(const std::string& name, const Result<Vocab>& vocab) {
  const std::string stem = Golden("ggml-vocab-" + name + ".gguf");
  ExpectIds({kNumCases, stem + ".inp", stem + ".out"}, vocab);
}

TEST(TokenizerGoldenTest, LlamaSpm) {
  ExpectGolden("llama-spm", VocabOfGguf("llama-spm"));
}

TEST(TokenizerGoldenTest, Phi3) { ExpectGolden("phi-3", VocabOfGguf("phi-3")); }

TEST(TokenizerGoldenTest, Gpt2) { ExpectGolden("gpt-2", VocabOfGguf("gpt-2")); }

TEST(TokenizerGoldenTest, RobertaBpe) {
  ExpectGolden("roberta-bpe", VocabOfOpt());
}

TEST(TokenizerGoldenTest, LlamaBpe) {
  const std::string path = Fixture("llama3/tokenizer.model");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "needs " << path;
  ExpectGolden("llama-bpe", VocabOfTiktoken(path, "llama-bpe"));
}

TEST(TokenizerGoldenTest, Qwen2AndDeepSeekR1Qwen) {
  const std::string path = Fixture("qwen2/qwen.tiktoken");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "needs " << path;
  ExpectGolden("qwen2", VocabOfTiktoken(path, "qwen2"));
  ExpectGolden("deepseek-r1-qwen", VocabOfTiktoken(path, "deepseek-r1-qwen"));
}

constexpr size_t kNumCases2026 = 72;

struct Toy {
  const char* name;                  // of the file
  std::vector<const char*> aliases;  // pre-tokenizers with the same rules
};

void PrintTo(const Toy& toy, std::ostream* out) { *out << toy.name; }

class ToyVocabularyTest : public ::testing::TestWithParam<Toy> {};

TEST_P(ToyVocabularyTest, Golden) {
  const std::string stem = Golden("2026/") + GetParam().name;
  Result<Vocab> vocab = VocabOfFile(stem + ".gguf");
  const Cases cases = {kNumCases2026, Golden("2026/texts.inp"), stem + ".out"};
  ExpectIds(cases, vocab);
  for (const char* alias : GetParam().aliases) {
    SCOPED_TRACE(alias);
    vocab->pre = alias;
    ExpectIds(cases, vocab);
  }
}

struct OddText {
  const char* name;
  std::string text;
};

std::vector<OddText> OddTexts() {
  std::string long_line;
  constexpr size_t kMegabyte = 1'000'000;
  while (long_line.size() < kMegabyte) long_line += "it's 12\xff \u4e16!";
  return {{"stray bytes", "a\x80\xbf b\xff\xfe\xf8 c"},
          {"cut off", "a\xc3 b\xe2\x96 1\xf0\x9f\x98"},
          {"NUL", std::string("\0a\0\0 b\n\0", 8)},
          {"surrogates", "x\xed\xa0\x80y \xed\xbf\xbf\xed\xa0\xbd\xed\xb8\x80"},
          {"overlong", "\xc0\x80 \xc1\xbf/ \xe0\x80\xaf\xf0\x80\x80\xaf"},
          {"beyond U+10FFFF", "\xf4\x90\x80\x80 \xf5\x80\x80\x80"},
          {"U+10FFFF and noncharacters", "\U0010FFFF\uFFFF \uFDD0a\U0001FFFE"},
          {"byte order marks", "\uFEFFa\uFEFF\xff\xfe"},
          {"long line", long_line},
          {"nothing", ""}};
}

TEST_P(ToyVocabularyTest, OddTextsComeBack) {
  const auto made =
      Tokenizer::Create(VocabOfFile(Golden("2026/") + GetParam().name + ".gguf")
                            .value_or(Vocab()));
  ASSERT_TRUE(made) << made.error().message;
  for (const OddText& odd : OddTexts()) {
    const auto ids = (*made)->Encode(odd.text, {false, false});
    ASSERT_TRUE(ids) << odd.name << ": " << ids.error().message;
    EXPECT_TRUE((*made)->Decode(*ids, false) == odd.text) << odd.name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Tokenizers, ToyVocabularyTest,
    ::testing::Values(
        Toy{"qwen35", {}},
        Toy{"gpt-4o", {"llama4", "minimax-m2", "kanana2", "talkie"}},
        Toy{"kimi-k2", {}}, Toy{"gemma4", {}}, Toy{"seed-coder", {}},
        Toy{"bailingmoe2", {"bailingmoe", "llada-moe"}}, Toy{"minicpm5", {}}),
    [](const auto& param_info) {
      std::string name = param_info.param.name;
      std::erase(name, '-');
      return name;
    });

// The tables of the models themselves.
TEST(TokenizerGoldenTest, Qwen36AndO200k) {
  const std::string folder =
      std::string(TC_SOURCE_DIR) + "/../shared/fixtures/tokenizers-2026/";
  const std::tuple<const char*, const char*> tables[] = {
      {"qwen35", "qwen35/qwen3_6.tiktoken"},
      {"gpt-4o", "o200k/o200k_base.tiktoken"}};
  for (const auto& [pre, table] : tables) {
    SCOPED_TRACE(pre);
    const std::string path = folder + table;
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "needs " << path;
    const std::string stem = folder + pre + "-real";
    ExpectIds({kNumCases2026, stem + ".inp", stem + ".out"},
              VocabOfTiktoken(path, pre));
  }
}

class WithoutVocabularyTest : public ::testing::TestWithParam<const char*> {};

TEST_P(WithoutVocabularyTest, Golden) {
  GTEST_SKIP() << GetParam() << ": no vocabulary in the fixtures";
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, WithoutVocabularyTest,
                         ::testing::Values("bert-bge", "chameleon", "command-r",
                                           "deepseek-coder", "mpt", "refact"),
                         [](const auto& param_info) {
                           std::string name = param_info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

std::unique_ptr<const Tokenizer> Open(const std::string& name) {
  auto vocab = VocabOfGguf(name);
  if (!vocab) return nullptr;
  auto tokenizer = Tokenizer::Create(*std::move(vocab));
  return tokenizer ? *std::move(tokenizer) : nullptr;
}

Ids Encode(const Tokenizer& tokenizer, std::string_view text, bool add_special,
           bool parse_special) {
  const auto ids = tokenizer.Encode(text, {add_special, parse_special});
  return ids.value_or(Ids{-1});
}

TEST(TokenizerGoldenTest, SpecialTokensOfLlama) {
  const auto llama = Open("llama-spm");
  ASSERT_NE(llama, nullptr);
  EXPECT_EQ(Encode(*llama, "Hello world", true, false), (Ids{1, 15043, 3186}));
  EXPECT_EQ(Encode(*llama, "<s>Hello</s> world", false, true),
            (Ids{1, 15043, 2, 29871, 3186}));
  EXPECT_THAT(Encode(*llama, "<s></s><unk>", true, false),
              ::testing::Contains(::testing::Lt(3)).Times(1));  // BOS alone
  EXPECT_EQ(llama->Decode(Ids{1, 15043, 3186}, false), "Hello world");
  EXPECT_EQ(llama->Decode(Ids{1, 15043, 3186}, true), "<s>Hello world");
  EXPECT_TRUE(llama->IsEndOfGeneration(2));
}

TEST(TokenizerGoldenTest, ChatOfPhi3) {
  const auto phi = Open("phi-3");
  ASSERT_NE(phi, nullptr);
  // What the model's own tokenizer gives: no newline tokens.
  EXPECT_EQ(Encode(*phi, "<|user|>\nHello<|end|>\n<|assistant|>\n", true, true),
            (Ids{1, 32010, 15043, 32007, 32001}));
  EXPECT_EQ(Encode(*phi, "a</s> b", false, false),  // user-defined
            (Ids{263, 2, 289}));
  for (const TokenId end : {32000, 32007}) {
    EXPECT_TRUE(phi->IsEndOfGeneration(end)) << end;
  }
}

TEST(TokenizerGoldenTest, SpecialTokensOfGpt2) {
  const auto gpt2 = Open("gpt-2");
  ASSERT_NE(gpt2, nullptr);
  EXPECT_EQ(Encode(*gpt2, "Hello<|endoftext|> world", true, true),
            (Ids{15496, 50256, 995}));
  EXPECT_THAT(Encode(*gpt2, "<|endoftext|>", true, false),
              ::testing::Not(::testing::Contains(50256)));
  EXPECT_EQ(gpt2->Decode(Ids{15496, 50256, 995}, false), "Hello world");
  EXPECT_TRUE(gpt2->IsEndOfGeneration(50256));
}

TEST(TokenizerGoldenTest, EmojiStreamsWhole) {
  const std::string text = "🚀 (normal) 😶‍🌫️ (multiple emojis)";
  for (const char* name : {"llama-spm", "gpt-2"}) {
    const auto tokenizer = Open(name);
    ASSERT_NE(tokenizer, nullptr);
    StreamDecoder decoder;
    std::string streamed;
    size_t num_held_back = 0;
    for (const TokenId id : Encode(*tokenizer, text, false, false)) {
      const std::string now = decoder.Push(tokenizer->Piece(id, false));
      num_held_back += now.empty() ? 1 : 0;
      EXPECT_TRUE(now.empty() || (now[0] & 0xc0) != 0x80);
      streamed += now;
    }
    EXPECT_GT(num_held_back, 0u);
    if (tokenizer->vocab().add_space_prefix) streamed.erase(0, 1);
    EXPECT_EQ(streamed + decoder.Flush(), text);
  }
}

}  // namespace
}  // namespace thermocline

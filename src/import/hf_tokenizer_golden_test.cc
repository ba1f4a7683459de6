// Real tokenizers, converted from each of their files, against the token ids
// that llama.cpp gives for 46 strings and against its own conversion.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "gguf/gguf.h"
#include "import/hf_tokenizer.h"
#include "model/vocab_metadata.h"
#include "text/test_golden.h"
#include "text/tokenizer.h"

namespace thermocline::importer {
namespace {

using text::Fixture;
using text::Golden;
using text::kNumCases;
using text::SplitBy;
using text::TokenId;
using text::TokenType;
using text::Vocab;
using Ids = std::vector<TokenId>;

NamedText ReadNamed(const std::string& path) {
  return {path, text::ReadFile(path)};
}

// Checks every golden case of `name`, and that each decodes to its text.
void ExpectGolden(const std::string& name, const Vocab& vocab) {
  const auto made = text::Tokenizer::Create(vocab);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  const std::string stem = Golden("ggml-vocab-" + name + ".gguf");
  const auto texts =
      SplitBy(ReadNamed(stem + ".inp").text, "\n__ggml_vocab_test__\n");
  const auto lines = SplitBy(ReadNamed(stem + ".out").text, "\n");
  ASSERT_EQ(texts.size(), kNumCases);
  ASSERT_EQ(lines.size(), kNumCases);
  for (size_t i = 0; i < kNumCases; ++i) {
    std::istringstream line(lines[i]);
    const Ids expected{std::istream_iterator<TokenId>(line), {}};
    const auto ids = (*made)->Encode(texts[i], {false, false});
    ASSERT_TRUE(ids.has_value()) << ids.error().message;
    EXPECT_EQ(*ids, expected) << "case " << i << ": " << texts[i];
    EXPECT_EQ((*made)->Decode(*ids, false), texts[i]) << "case " << i;
  }
}

Vocab LlamaSpmOfLlamaCpp() {
  const auto file = gguf::File::Open(Golden("ggml-vocab-llama-spm.gguf"));
  return *model::ReadVocab(**file).value();
}

class HfTokenizerGoldenTest : public ::testing::Test {
 protected:
  // Skips, by name, where the file is not there.
  bool IsMissing(const std::string& path) {
    if (std::filesystem::exists(path)) return false;
    [&] { GTEST_SKIP() << "needs " << path; }();
    return true;
  }

  Vocab Convert() {
    const auto tokenizer = ParseHfTokenizer(sources_);
    EXPECT_TRUE(tokenizer.has_value())
        << (tokenizer ? "" : tokenizer.error().message);
    return tokenizer ? tokenizer->vocab : Vocab();
  }

  TokenizerSources sources_ = {.architecture = "llama", .num_rows = 32000};
};

TEST_F(HfTokenizerGoldenTest, Llama2FromTokenizerModel) {
  if (IsMissing(Fixture("llama2/tokenizer.model"))) return;
  sources_.tokenizer_model = ReadNamed(Fixture("llama2/tokenizer.model"));
  const Vocab vocab = Convert();
  const Vocab expected = LlamaSpmOfLlamaCpp();
  EXPECT_EQ(vocab.kind, expected.kind);
  EXPECT_TRUE(vocab.tokens == expected.tokens);
  EXPECT_TRUE(vocab.scores == expected.scores);
  EXPECT_TRUE(vocab.types == expected.types);
  EXPECT_EQ(vocab.bos, expected.bos);
  EXPECT_EQ(vocab.eos, expected.eos);
  EXPECT_EQ(vocab.unk, expected.unk);
  EXPECT_EQ(vocab.add_bos, expected.add_bos);
  EXPECT_EQ(vocab.add_eos, expected.add_eos);
  EXPECT_EQ(vocab.add_space_prefix, expected.add_space_prefix);
  ExpectGolden("llama-spm", vocab);
}

// It has merges and no scores: their order must be that of the scores.
TEST_F(HfTokenizerGoldenTest, Llama2FromTokenizerJson) {
  if (IsMissing(Fixture("llama2/tokenizer.json"))) return;
  sources_.tokenizer_json = ReadNamed(Fixture("llama2/tokenizer.json"));
  const Vocab vocab = Convert();
  const Vocab expected = LlamaSpmOfLlamaCpp();
  ASSERT_EQ(vocab.tokens.size(), expected.tokens.size());
  EXPECT_TRUE(vocab.types == expected.types);
  size_t num_other_tokens = 0;
  for (size_t i = 0; i < vocab.tokens.size(); ++i) {
    // The fixture has spaces where the original has U+00A0.
    num_other_tokens += vocab.tokens[i] != expected.tokens[i] ? 1 : 0;
  }
  EXPECT_LE(num_other_tokens, 4u);
  // Of what merges make; single characters come after it in both.
  std::vector<size_t> order;
  for (size_t i = 259; i < vocab.tokens.size(); ++i) {
    if (expected.scores[i] > -1e8f) order.push_back(i);
  }
  std::ranges::sort(order, {}, [&](size_t i) { return -expected.scores[i]; });
  for (size_t i = 1; i < order.size(); ++i) {
    EXPECT_GE(vocab.scores[order[i - 1]], vocab.scores[order[i]]) << order[i];
  }
  EXPECT_EQ(vocab.bos, std::nullopt);  // only tokenizer_config.json tells
  EXPECT_EQ(vocab.unk, 0);
  EXPECT_TRUE(vocab.add_space_prefix);
  ExpectGolden("llama-spm", vocab);
}

TEST_F(HfTokenizerGoldenTest, Llama3FromTiktoken) {
  if (IsMissing(Fixture("llama3/tokenizer.model"))) return;
  sources_.tokenizer_model = ReadNamed(Fixture("llama3/tokenizer.model"));
  sources_.num_rows = 128256;
  const Vocab vocab = Convert();
  ASSERT_EQ(vocab.tokens.size(), 128256u);
  EXPECT_EQ(vocab.bos, 128000);
  EXPECT_EQ(vocab.eos, 128001);
  EXPECT_EQ(vocab.eom, 128008);
  EXPECT_EQ(vocab.eot, 128009);
  EXPECT_EQ(vocab.tokens[128006], "<|start_header_id|>");
  EXPECT_EQ(vocab.tokens[128010], "<|python_tag|>");
  EXPECT_EQ(vocab.tokens[128011], "<|reserved_special_token_3|>");
  EXPECT_EQ(vocab.tokens[128255], "<|reserved_special_token_247|>");
  EXPECT_TRUE(vocab.add_bos);
  ExpectGolden("llama-bpe", vocab);
  // Tokens that merge through others of higher ranks, inside longer words: as
  // tiktoken's rule gives them.
  const auto made = text::Tokenizer::Create(vocab);
  ASSERT_TRUE(made.has_value());
  const std::vector<std::pair<std::string, Ids>> cases = {
      {"[.:.:", {58, 100421}},
      {" ôngs", {102665, 82}},
      {" nghiệa", {100999, 64}},
      {"nasıydı", {46523, 119308}}};
  for (const auto& [text, ids] : cases) {
    EXPECT_EQ(*(*made)->Encode(text, {false, false}), ids) << text;
  }
}

TEST_F(HfTokenizerGoldenTest, Qwen2FromTiktoken) {
  if (IsMissing(Fixture("qwen2/qwen.tiktoken"))) return;
  sources_.tiktoken = ReadNamed(Fixture("qwen2/qwen.tiktoken"));
  sources_.architecture = "qwen2";
  sources_.num_rows = 151936;
  sources_.eos_ids = {151645, 151643};
  const Vocab vocab = Convert();
  ASSERT_EQ(vocab.tokens.size(), 151936u);
  EXPECT_EQ(vocab.tokens[151644], "<|im_start|>");
  EXPECT_EQ(vocab.tokens[151646], "[PAD151646]");
  EXPECT_EQ(vocab.types[151646], TokenType::kUnused);
  EXPECT_EQ(vocab.eos, 151643);
  EXPECT_EQ(vocab.eot, 151645);
  EXPECT_FALSE(vocab.add_bos);
  ExpectGolden("qwen2", vocab);
}

TEST_F(HfTokenizerGoldenTest, OptFromVocabAndMerges) {
  sources_.vocab_json = ReadNamed(Golden("opt/gpt2-vocab.json"));
  sources_.merges_txt = ReadNamed(Golden("gpt2/merges.txt"));
  sources_.architecture = "opt";
  sources_.num_rows = 50272;
  const Vocab vocab = Convert();
  ASSERT_EQ(vocab.tokens.size(), 50272u);
  EXPECT_EQ(vocab.pre, "gpt-2");
  EXPECT_EQ(vocab.bos, 2);
  EXPECT_EQ(vocab.eos, 2);
  EXPECT_TRUE(vocab.add_bos);
  EXPECT_EQ(vocab.types[1], TokenType::kControl);
  EXPECT_EQ(vocab.types[4], TokenType::kNormal);
  ExpectGolden("roberta-bpe", vocab);
}

}  // namespace
}  // namespace thermocline::importer

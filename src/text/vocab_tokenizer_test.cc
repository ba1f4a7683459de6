#include "text/vocab_tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "text/small_vocabs.h"
#include "text/test_tokenizer.h"

namespace thermocline::text {
namespace {

using Ids = std::vector<TokenId>;

Ids Encode(const Tokenizer& tokenizer, std::string_view text, bool add_special,
           bool parse_special) {
  const auto ids = tokenizer.Encode(text, {add_special, parse_special});
  EXPECT_TRUE(ids);
  return ids.value_or(Ids{});
}

constexpr TokenId kSpmTool = 259, kSpmA = 263, kSpmSpace = 271;
constexpr TokenId kBpeTool = 257;

TEST(VocabTokenizerTest, BosAndEosOnlyWhereTheVocabularyAsks) {
  Vocab vocab = SmallSpmVocab();
  EXPECT_EQ(Encode(*MakeTokenizer(vocab), "a", true, false), (Ids{1, kSpmA}));
  EXPECT_EQ(Encode(*MakeTokenizer(vocab), "a", false, false), Ids{kSpmA});
  EXPECT_EQ(Encode(*MakeTokenizer(vocab), "", true, false), Ids{1});
  EXPECT_EQ(Encode(*MakeTokenizer(vocab), "", false, false), Ids{});
  vocab.add_eos = true;
  EXPECT_EQ(Encode(*MakeTokenizer(vocab), "a", true, false),
            (Ids{1, kSpmA, 2}));
  vocab.add_bos = false;
  EXPECT_EQ(Encode(*MakeTokenizer(vocab), "a", true, false), (Ids{kSpmA, 2}));
  vocab.eos.reset();
  EXPECT_EQ(Encode(*MakeTokenizer(vocab), "a", true, false), Ids{kSpmA});
}

TEST(VocabTokenizerTest, ControlTokensMatchOnlyWhenAskedTo) {
  const auto spm = MakeTokenizer(SmallSpmVocab());
  EXPECT_EQ(Encode(*spm, "<s>a</s>a", false, true), (Ids{1, kSpmA, 2, kSpmA}));
  EXPECT_EQ(Encode(*spm, "<unk>", false, true), Ids{0});
  EXPECT_EQ(Encode(*spm, "<s>", true, true), (Ids{1, 1}));
  for (const TokenId id : Encode(*spm, "<s>a</s><unk>", false, false)) {
    EXPECT_GT(id, 2);
  }
  const auto bpe = MakeTokenizer(SmallBpeVocab());
  EXPECT_EQ(Encode(*bpe, "a<|endoftext|>", false, true), (Ids{1 + 'a', 0}));
  for (const TokenId id : Encode(*bpe, "a<|endoftext|>", false, false)) {
    EXPECT_NE(id, 0);
  }
}

TEST(VocabTokenizerTest, UserDefinedTokensAlwaysMatch) {
  const auto spm = MakeTokenizer(SmallSpmVocab());
  const auto bpe = MakeTokenizer(SmallBpeVocab());
  for (const bool parse_special : {true, false}) {
    EXPECT_EQ(Encode(*spm, "a<|tool|>a", false, parse_special),
              (Ids{kSpmA, kSpmTool, kSpmA}));
    EXPECT_EQ(Encode(*spm, "<|tool|> a", false, parse_special),
              (Ids{kSpmTool, kSpmSpace, kSpmA}));
    EXPECT_EQ(Encode(*bpe, "a<|tool|>", false, parse_special),
              (Ids{1 + 'a', kBpeTool}));
  }
}

// What SentencePiece itself makes of its user-defined symbols: one space in
// front of the text, none behind a symbol.
TEST(VocabTokenizerTest, SymbolsOfTheModelStandInsideOfText) {
  Vocab vocab = SmallSpmVocab();
  AddToken(&vocab, "<sep>", TokenType::kUserDefined, 0);
  const auto tokenizer = MakeTokenizer(vocab);
  const TokenId sep = tokenizer->num_tokens() - 1;
  const TokenId bare_a = sep - 9;
  ASSERT_EQ(vocab.tokens[static_cast<size_t>(bare_a)], "a");
  const std::pair<const char*, Ids> cases[] = {
      {"a<sep>a", {kSpmA, sep, bare_a}},
      {"<sep>a", {kSpmSpace, sep, bare_a}},
      {"a <sep> a", {kSpmA, kSpmSpace, sep, kSpmA}},
      {"<sep><sep>", {kSpmSpace, sep, sep}},
      {"<|tool|>a", {kSpmTool, kSpmA}},
      {"<|tool|><sep>a", {kSpmTool, kSpmSpace, sep, bare_a}},
  };
  for (const auto& [text, ids] : cases) {
    EXPECT_EQ(Encode(*tokenizer, text, false, false), ids) << text;
    EXPECT_EQ(tokenizer->Decode(ids, false), text);
  }
  EXPECT_FALSE(tokenizer->PartsText(sep));
  EXPECT_TRUE(tokenizer->PartsText(kSpmTool));
  vocab.add_space_prefix = false;
  EXPECT_EQ(Encode(*MakeTokenizer(vocab), "<sep>a", false, false),
            (Ids{sep, bare_a}));
}

TEST(VocabTokenizerTest, ASpaceInFrontOfTheTextOnly) {
  Vocab vocab = SmallSpmVocab();
  vocab.space_prefix_once = true;
  const auto tokenizer = MakeTokenizer(vocab);
  const TokenId bare_a = tokenizer->num_tokens() - 9;
  ASSERT_EQ(vocab.tokens[static_cast<size_t>(bare_a)], "a");
  const std::pair<const char*, Ids> cases[] = {
      {"a</s>a", {kSpmA, 2, bare_a}},
      {"</s>a", {2, bare_a}},
      {"</s> a", {2, kSpmA}},
      {"<|tool|>a", {kSpmTool, bare_a}},
  };
  for (const auto& [text, ids] : cases) {
    EXPECT_EQ(Encode(*tokenizer, text, false, true), ids) << text;
    EXPECT_EQ(tokenizer->Decode(ids, true), text);
  }
  EXPECT_EQ(tokenizer->Decode(Ids{1, kSpmA}, false), "a");  // behind BOS
  EXPECT_EQ(*tokenizer->EncodeParts(std::vector<TextPart>{{"a", false}},
                                    {.previous = 2, .reserved = {}}),
            Ids{bare_a});
}

TEST(VocabTokenizerTest, TokensThatSwallowSpace) {
  Vocab vocab = SmallBpeVocab();
  AddToken(&vocab, "<l>", TokenType::kControl);
  AddToken(&vocab, "<r>", TokenType::kUserDefined);
  const auto l = static_cast<TokenId>(vocab.tokens.size() - 2);
  vocab.lstrip = {l};
  vocab.rstrip = {l + 1};
  const auto tokenizer = MakeTokenizer(vocab);
  const TokenId a = 1 + 'a', space = 1 + ' ';
  const std::pair<const char*, Ids> cases[] = {
      {"a <l>", {a, l}},
      {"a \n <l> <r>", {a, l, space, l + 1}},
      {"  <l>", {l}},
      {"<r> \t a", {l + 1, a}},
      {"<r>  <l>a", {l + 1, l, a}},
  };
  for (const auto& [text, ids] : cases) {
    EXPECT_EQ(Encode(*tokenizer, text, false, true), ids) << text;
  }
  vocab.lstrip = {static_cast<TokenId>(vocab.tokens.size())};
  EXPECT_EQ(Tokenizer::Create(vocab).error().code, ErrorCode::kCorrupt);
}

TEST(VocabTokenizerTest, SpecialTokensOfOneKindOnly) {
  Vocab vocab = SmallBpeVocab();
  vocab.tokens[0] = "<x>";
  vocab.types[0] = TokenType::kUserDefined;
  const auto user_defined = MakeTokenizer(vocab);
  vocab.types[0] = vocab.types[kBpeTool] = TokenType::kControl;
  const auto control = MakeTokenizer(vocab);
  for (const bool parse_special : {true, false}) {
    EXPECT_EQ(Encode(*user_defined, "<x><|tool|>", false, parse_special),
              (Ids{0, kBpeTool}));
    EXPECT_EQ(Encode(*control, "<x>", false, parse_special) == Ids{0},
              parse_special);
  }
}

TEST(VocabTokenizerTest, NormalTokensOfControlTextAreControl) {
  Vocab vocab = SmallBpeVocab();
  AddToken(&vocab, "<|im_end|>", TokenType::kNormal);
  const auto tokenizer = MakeTokenizer(vocab);
  const TokenId end = tokenizer->num_tokens() - 1;
  EXPECT_EQ(Encode(*tokenizer, "<|im_end|>", false, true), Ids{end});
  EXPECT_GT(Encode(*tokenizer, "<|im_end|>", false, false).size(), 1u);
  EXPECT_EQ(tokenizer->Piece(end, false), "");
  EXPECT_TRUE(tokenizer->IsEndOfGeneration(end));
}

// An exporter's mistake that is common: the marks of a chat as normal tokens.
TEST(VocabTokenizerTest, MarksThatAreNormalMatchInMarkupOnly) {
  for (Vocab vocab : {SmallBpeVocab("llama-bpe"), SmallSpmVocab()}) {
    AddToken(&vocab, "<|im_start|>", TokenType::kNormal);
    const auto mark = static_cast<TokenId>(vocab.tokens.size() - 1);
    const auto tokenizer = MakeTokenizer(vocab);
    const auto ids = tokenizer->EncodeParts(
        std::vector<TextPart>{{"<|im_start|>", true}, {"<|im_start|>", false}},
        {});
    ASSERT_TRUE(ids);
    ASSERT_GT(ids->size(), 2u);
    EXPECT_EQ(ids->front(), mark);
    EXPECT_EQ(std::ranges::count(*ids, mark), 1);
    EXPECT_EQ(tokenizer->Piece(mark, false), "");
  }
}

TEST(VocabTokenizerTest, UnusedTokensHaveNoText) {
  Vocab vocab = SmallBpeVocab();
  AddToken(&vocab, "[PAD1]", TokenType::kUnused);
  const auto pad = static_cast<TokenId>(vocab.tokens.size() - 1);
  const auto tokenizer = MakeTokenizer(std::move(vocab));
  for (const bool show_special : {false, true}) {
    EXPECT_EQ(tokenizer->Piece(pad, show_special), "");
  }
}

TEST(VocabTokenizerTest, FirstOfEqualTextsCountsAndEmptyOnesNever) {
  Vocab vocab = SmallSpmVocab();
  AddToken(&vocab, "▁a", TokenType::kNormal, 100);
  AddToken(&vocab, "", TokenType::kNormal);
  AddToken(&vocab, "", TokenType::kUserDefined);
  AddToken(&vocab, "<|tool|>", TokenType::kUserDefined);
  const auto tokenizer = MakeTokenizer(vocab);
  EXPECT_EQ(Encode(*tokenizer, "a<|tool|>", false, true),
            (Ids{kSpmA, kSpmTool}));
  EXPECT_EQ(tokenizer->Piece(tokenizer->num_tokens() - 3, true), "");
}

TEST(VocabTokenizerTest, Phi3TokensSwallowSpaceBehindThem) {
  Vocab vocab = SmallSpmVocab();
  const auto first = static_cast<TokenId>(vocab.tokens.size());
  for (const char* text : {"<|endoftext|>", "<|assistant|>", "<|placeholder1|>",
                           "<|system|>", "<|end|>", "<|user|>"}) {
    AddToken(&vocab, text, TokenType::kControl);
  }
  const auto tokenizer = MakeTokenizer(vocab);
  EXPECT_EQ(
      Encode(*tokenizer, "<|user|> \n\t a<|end|>\n<|assistant|>", false, true),
      (Ids{first + 5, kSpmA, first + 4, first + 1}));
  EXPECT_EQ(Encode(*tokenizer, "<|end|>\n", false, true), Ids{first + 4});
  EXPECT_EQ(Encode(*tokenizer, "<|endoftext|>\na", false, true),
            (Ids{first, kSpmSpace, 3 + '\n', 275}));
  const auto behind_end = tokenizer->EncodeParts(
      {{{"\n<|user|>\n", true}, {"a", false}}}, {.previous = first + 4});
  ASSERT_TRUE(behind_end);
  EXPECT_EQ(*behind_end, (Ids{first + 5, kSpmA}));
}

TEST(VocabTokenizerTest, RefusesTextBeyondItsLimit) {
  const auto tokenizer = MakeTokenizer(SmallBpeVocab());
  constexpr size_t kTooLong = (size_t{1} << 30) + 1;
  const std::unique_ptr<void, decltype(&std::free)> untouched(
      std::calloc(kTooLong, 1), &std::free);
  ASSERT_NE(untouched, nullptr);
  const auto ids = tokenizer->Encode(
      {static_cast<const char*>(untouched.get()), kTooLong}, {});
  ASSERT_FALSE(ids);
  EXPECT_EQ(ids.error().code, ErrorCode::kResourceExhausted);
}

using VocabTokenizerDeathTest = ::testing::Test;

TEST(VocabTokenizerDeathTest, PieceOutOfRangeIsAProgrammerError) {
  const auto tokenizer = MakeTokenizer(SmallBpeVocab());
  EXPECT_DEATH((void)tokenizer->Piece(-1, true), "check failed");
  EXPECT_DEATH((void)tokenizer->Piece(tokenizer->num_tokens(), true),
               "check failed");
}

Ids EncodeParts(const Tokenizer& tokenizer, const std::vector<TextPart>& parts,
                const EncodePartsOptions& options = {}) {
  const auto ids = tokenizer.EncodeParts(parts, options);
  EXPECT_TRUE(ids);
  return ids.value_or(Ids{});
}

TEST(EncodePartsTest, ControlTokensMatchInMarkupOnly) {
  const auto spm = MakeTokenizer(SmallSpmVocab());
  EXPECT_EQ(EncodeParts(*spm, {{"<s>a</s>", true}}), (Ids{1, kSpmA, 2}));
  for (const TokenId id : EncodeParts(*spm, {{"<s>a</s><unk>", false}})) {
    EXPECT_GT(id, 2);
  }
  // Nor across a border, nor from two pieces of content.
  for (const TokenId id : EncodeParts(
           *spm, {{"<", true}, {"s>", false}, {"</", false}, {"s>", true}})) {
    EXPECT_GT(id, 2);
  }
  const auto bpe = MakeTokenizer(SmallBpeVocab());
  EXPECT_EQ(EncodeParts(*bpe, {{"<|endoftext|>", true}, {"a", false}}),
            (Ids{0, 1 + 'a'}));
}

TEST(EncodePartsTest, ReservedTokensMatchInMarkupOnly) {
  const auto spm = MakeTokenizer(SmallSpmVocab());
  const std::vector<TextPart> content = {{"a<|tool|>", false}};
  EXPECT_EQ(EncodeParts(*spm, content), (Ids{kSpmA, kSpmTool}));
  const Ids reserved = {2, kSpmTool};
  const EncodePartsOptions options = {.previous = std::nullopt,
                                      .reserved = reserved};
  for (const TokenId id : EncodeParts(*spm, content, options)) {
    EXPECT_NE(id, kSpmTool);
  }
  EXPECT_EQ(EncodeParts(*spm, {{"a<|tool|>", true}}, options),
            (Ids{kSpmA, kSpmTool}));
}

TEST(EncodePartsTest, WordsGoAcrossBorders) {
  const auto spm = MakeTokenizer(SmallSpmVocab());
  const Ids whole = Encode(*spm, "the cat", false, false);
  EXPECT_EQ(
      EncodeParts(*spm,
                  {{"t", true}, {"he c", false}, {"", true}, {"at", false}}),
      whole);
  EXPECT_EQ(EncodeParts(*spm, {}), Ids{});
  const auto bpe = MakeTokenizer(SmallBpeVocab());
  EXPECT_EQ(EncodeParts(*bpe, {{" t", true}, {"he", false}}),
            Encode(*bpe, " the", false, false));
}

TEST(EncodePartsTest, WhatContinuesATextGetsNoSpaceInFront) {
  const auto spm = MakeTokenizer(SmallSpmVocab());
  const std::vector<TextPart> parts = {
      {"a", false}, {"</s>", true}, {"a", false}};
  EXPECT_EQ(EncodeParts(*spm, parts), (Ids{kSpmA, 2, kSpmA}));
  EXPECT_EQ(EncodeParts(*spm, parts, {.previous = 2, .reserved = {}}),
            (Ids{kSpmA, 2, kSpmA}));
  EXPECT_EQ(EncodeParts(*spm, parts, {.previous = kSpmTool, .reserved = {}}),
            (Ids{kSpmA, 2, kSpmA}));
  const Ids continued =
      EncodeParts(*spm, parts, {.previous = kSpmA, .reserved = {}});
  ASSERT_EQ(continued.size(), 3u);
  EXPECT_EQ(spm->vocab().tokens[static_cast<size_t>(continued[0])], "a");
  EXPECT_EQ(continued[2], kSpmA);
  // A model may choose an id that its vocabulary has not.
  EXPECT_EQ(EncodeParts(*spm, parts, {.previous = 1 << 20, .reserved = {}}),
            continued);
}

}  // namespace
}  // namespace thermocline::text

// Small complete vocabularies for tests and fuzzing: every byte has a token.
#ifndef THERMOCLINE_TEXT_SMALL_VOCABS_H_
#define THERMOCLINE_TEXT_SMALL_VOCABS_H_

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "text/byte_text.h"
#include "text/vocab.h"

namespace thermocline::text {

inline void AddToken(Vocab* vocab, std::string_view text, TokenType type,
                     float score = 0) {
  vocab->tokens.emplace_back(text);
  vocab->types.push_back(type);
  vocab->scores.push_back(score);
}

// <0x00> to <0xFF>.
inline void AddByteTokens(Vocab* vocab) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  for (size_t byte = 0; byte < 256; ++byte) {
    const std::string text = {'<', '0', 'x', kHex[byte / 16], kHex[byte % 16],
                              '>'};
    AddToken(vocab, text, TokenType::kByte);
  }
}

// 0 <unk>, 1 <s>, 2 </s>, 3-258 the bytes, 259 <|tool|> (user-defined, added
// afterwards), then
// characters and words; BOS and a space in front are added.
inline Vocab SmallSpmVocab() {
  Vocab vocab;
  vocab.kind = VocabKind::kSpm;
  AddToken(&vocab, "<unk>", TokenType::kUnknown);
  AddToken(&vocab, "<s>", TokenType::kControl);
  AddToken(&vocab, "</s>", TokenType::kControl);
  AddByteTokens(&vocab);
  AddToken(&vocab, "<|tool|>", TokenType::kUserDefined, kAddedTokenScore);
  float score = -1;
  for (const std::string_view text :
       {"▁t",   "he", "▁the", "▁a", "in", "▁▁", "▁▁▁▁", "at",
        "▁cat", "aa", "aaaa", "▁",  "t",  "h",  "e",    "a",
        "i",    "n",  "c",    "é",  "☃",  "<",  "s",    ">"}) {
    AddToken(&vocab, text, TokenType::kNormal, score);
    score -= 1;
  }
  vocab.unk = 0;
  vocab.bos = 1;
  vocab.eos = 2;
  vocab.add_bos = true;
  vocab.add_space_prefix = true;
  return vocab;
}

// As Gemma 4: 0 <unk>, 1 <bos>, 2 <eos>, 3-258 the bytes, 259 <|tool|>
// (user-defined), then characters and the results of the merges, and a run of
// line feeds that no merge makes.
inline Vocab SmallCharBpeVocab() {
  Vocab vocab;
  vocab.kind = VocabKind::kCharBpe;
  AddToken(&vocab, "<unk>", TokenType::kUnknown);
  AddToken(&vocab, "<bos>", TokenType::kControl);
  AddToken(&vocab, "<eos>", TokenType::kControl);
  AddByteTokens(&vocab);
  AddToken(&vocab, "<|tool|>", TokenType::kUserDefined);
  for (const std::string_view text :
       {"▁", "t", "h", "e", "a", "i", "n", "c", "é", "☃", "<", "\n"}) {
    AddToken(&vocab, text, TokenType::kNormal);
  }
  for (const auto& [left, right] :
       std::initializer_list<std::pair<std::string_view, std::string_view>>{
           {"h", "e"},
           {"▁", "t"},
           {"▁t", "he"},
           {"▁", "▁"},
           {"a", "a"},
           {"\n", "\n"}}) {
    vocab.merges.push_back(std::string(left) + " " + std::string(right));
    AddToken(&vocab, std::string(left) + std::string(right),
             TokenType::kNormal);
  }
  AddToken(&vocab, "\n\n\n", TokenType::kNormal);
  vocab.unk = 0;
  vocab.bos = 1;
  vocab.eos = 2;
  vocab.add_bos = true;
  return vocab;
}

// 0 <|endoftext|>, 1-256 the bytes in order, 257 <|tool|> (user-defined), then
// the results of the merges.
inline Vocab SmallBpeVocab(std::string_view pre = "gpt-2") {
  Vocab vocab;
  vocab.kind = VocabKind::kBpe;
  vocab.pre = pre;
  AddToken(&vocab, "<|endoftext|>", TokenType::kControl);
  for (int byte = 0; byte < 256; ++byte) {
    AddToken(&vocab, ByteToText(static_cast<uint8_t>(byte)),
             TokenType::kNormal);
  }
  AddToken(&vocab, "<|tool|>", TokenType::kUserDefined);
  for (const auto& [left, right] :
       std::initializer_list<std::pair<std::string_view, std::string_view>>{
           {"h", "e"},
           {"Ġ", "t"},
           {"Ġt", "he"},
           {"Ġ", "a"},
           {"i", "n"},
           {"a", "a"},
           {"aa", "aa"},
           {"Ġ", "Ġ"},
           {"1", "2"},
           {"Ã", "©"}}) {
    vocab.merges.push_back(std::string(left) + " " + std::string(right));
    AddToken(&vocab, std::string(left) + std::string(right),
             TokenType::kNormal);
  }
  vocab.bos = 0;
  vocab.eos = 0;
  return vocab;
}

}  // namespace thermocline::text

#endif  // THERMOCLINE_TEXT_SMALL_VOCABS_H_

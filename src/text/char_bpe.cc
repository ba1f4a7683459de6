#include "text/char_bpe.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "text/utf8.h"

namespace thermocline::text {
namespace {

// Bytes of the character at the start of a text; 1 where there is none.
size_t CharLength(std::string_view text) {
  return std::max<size_t>(Utf8CharLength(text), 1);
}

// Whether the merge joins a space to something else in front of it.
bool JoinsWords(std::string_view merge) {
  const std::optional<MergeSides> sides = ParseMerge(merge);
  return sides && !sides->left.ends_with(kEscapedSpace) &&
         sides->right.starts_with(kEscapedSpace);
}

}  // namespace

CharBpeTokenizer::CharBpeTokenizer(Vocab vocab)
    : VocabTokenizer(std::move(vocab)) {
  words_are_independent_ = std::ranges::none_of(vocab_.merges, JoinsWords);
}

Result<std::unique_ptr<const CharBpeTokenizer>> CharBpeTokenizer::Create(
    Vocab vocab) {
  std::unique_ptr<CharBpeTokenizer> tokenizer(
      new CharBpeTokenizer(std::move(vocab)));
  TC_RETURN_IF_ERROR(
      tokenizer->byte_tokens_.Read(tokenizer->vocab_, tokenizer->Unknown()));
  TC_RETURN_IF_ERROR(
      tokenizer->merges_.Read(tokenizer->vocab_, tokenizer->PlainFinder()));
  TC_RETURN_IF_ERROR(tokenizer->Init());
  return tokenizer;
}

Status CharBpeTokenizer::EncodePlain(std::string_view text, bool /*continues*/,
                                     EncodeScratch& scratch,
                                     std::vector<TokenId>* tokens) const {
  while (!text.empty()) {
    const bool is_line_end = text.front() == '\n';
    const size_t end =
        is_line_end ? text.find_first_not_of('\n') : text.find('\n');
    const std::string_view run = text.substr(0, end);
    text.remove_prefix(run.size());
    // Merges do not lead to all of these tokens.
    const std::optional<TokenId> whole =
        is_line_end ? FindPlain(run) : std::nullopt;
    if (whole) {
      tokens->push_back(*whole);
      continue;
    }
    EncodeEscaped(
        run, words_are_independent_, scratch, tokens,
        [&](std::string_view word) { EncodeWord(word, scratch, tokens); });
  }
  return {};
}

void CharBpeTokenizer::EncodeWord(std::string_view word, EncodeScratch& scratch,
                                  std::vector<TokenId>* tokens) const {
  scratch.symbols.clear();
  while (!word.empty()) {
    const std::string_view c = word.substr(0, CharLength(word));
    word.remove_prefix(c.size());
    if (const std::optional<TokenId> id = FindPlain(c)) {
      scratch.symbols.push_back(static_cast<uint32_t>(*id));
    } else if (const auto symbol = merges_.FindOther(c)) {
      scratch.symbols.push_back(*symbol);
    } else {  // nothing merges with it
      EncodeSymbols(scratch, tokens);
      byte_tokens_.Append(c, tokens);
    }
  }
  EncodeSymbols(scratch, tokens);
}

void CharBpeTokenizer::EncodeSymbols(EncodeScratch& scratch,
                                     std::vector<TokenId>* tokens) const {
  merges_.Apply(&scratch.symbols, &scratch.merger);
  for (const MergeSymbols::Symbol symbol : scratch.symbols) {
    if (merges_.IsToken(symbol)) {
      tokens->push_back(static_cast<TokenId>(symbol));
    } else {
      EncodeCharacters(merges_.TextOf(symbol), tokens);
    }
  }
  scratch.symbols.clear();
}

void CharBpeTokenizer::EncodeCharacters(std::string_view text,
                                        std::vector<TokenId>* tokens) const {
  while (!text.empty()) {
    const std::string_view c = text.substr(0, CharLength(text));
    text.remove_prefix(c.size());
    if (const std::optional<TokenId> id = FindPlain(c)) {
      tokens->push_back(*id);
    } else {
      byte_tokens_.Append(c, tokens);
    }
  }
}

std::string CharBpeTokenizer::PieceBytes(TokenId id) const {
  return CharPieceBytes(vocab_, id);
}

}  // namespace thermocline::text

#include "text/bpe.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/log.h"
#include "text/byte_text.h"

namespace thermocline::text {
BpeTokenizer::BpeTokenizer(Vocab vocab) : VocabTokenizer(std::move(vocab)) {}

Result<std::unique_ptr<const BpeTokenizer>> BpeTokenizer::Create(Vocab vocab) {
  std::unique_ptr<BpeTokenizer> tokenizer(new BpeTokenizer(std::move(vocab)));
  TC_ASSIGN_OR_RETURN(tokenizer->pre_tokenizer_,
                      PreTokenizer::Create(tokenizer->vocab_.pre));
  TC_RETURN_IF_ERROR(
      tokenizer->merges_.Read(tokenizer->vocab_, tokenizer->PlainFinder()));
  tokenizer->ReadBytes();
  if (tokenizer->pre_tokenizer_.ignore_merges()) tokenizer->ReadWords();
  TC_RETURN_IF_ERROR(tokenizer->Init());
  return tokenizer;
}

void BpeTokenizer::ReadBytes() {
  int num_missing = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const Symbol symbol =
        merges_.Intern(ByteToText(static_cast<uint8_t>(byte)), PlainFinder());
    byte_symbols_[static_cast<size_t>(byte)] = symbol;
    num_missing += merges_.IsToken(symbol) ? 0 : 1;
  }
  if (num_missing > 0 && !Unknown()) {
    LogInfo(
        "the vocabulary lacks tokens for {} of 256 bytes and has no unknown "
        "token; text that needs them is left out",
        num_missing);
  }
}

void BpeTokenizer::ReadWords() {
  for (TokenId id = 0; id < num_tokens(); ++id) {
    if (FindPlain(TokenText(id)) != id) continue;
    std::optional<std::string> bytes = TextToBytes(TokenText(id));
    if (bytes) words_.try_emplace(*std::move(bytes), id);
  }
}

Status BpeTokenizer::EncodePlain(std::string_view text, bool /*continues*/,
                                 EncodeScratch& scratch,
                                 std::vector<TokenId>* tokens) const {
  return pre_tokenizer_.ForEachWord(text, [&](std::string_view word) {
    scratch.words.Append(word, tokens,
                         [&] { EncodeWord(word, scratch, tokens); });
  });
}

void BpeTokenizer::EncodeWord(std::string_view word, EncodeScratch& scratch,
                              std::vector<TokenId>* tokens) const {
  if (pre_tokenizer_.ignore_merges()) {
    const auto found = words_.find(word);
    if (found != words_.end()) {
      tokens->push_back(found->second);
      return;
    }
  }
  scratch.symbols.clear();
  for (const char c : word) {
    scratch.symbols.push_back(byte_symbols_[static_cast<uint8_t>(c)]);
  }
  merges_.Apply(&scratch.symbols, &scratch.merger);
  for (const Symbol symbol : scratch.symbols) {
    if (merges_.IsToken(symbol)) {
      tokens->push_back(static_cast<TokenId>(symbol));
    } else {
      EncodeBytes(symbol, tokens);
    }
  }
}

void BpeTokenizer::EncodeBytes(Symbol symbol,
                               std::vector<TokenId>* tokens) const {
  const std::optional<std::string> bytes = TextToBytes(merges_.TextOf(symbol));
  if (!bytes) return;  // cannot be: it was merged from bytes
  for (const char c : *bytes) {
    const Symbol byte_symbol = byte_symbols_[static_cast<uint8_t>(c)];
    if (merges_.IsToken(byte_symbol)) {
      tokens->push_back(static_cast<TokenId>(byte_symbol));
    } else if (const auto unknown = Unknown()) {
      tokens->push_back(*unknown);
    }
  }
}

std::string BpeTokenizer::PieceBytes(TokenId id) const {
  return TextToBytesLenient(TokenText(id));
}

}  // namespace thermocline::text

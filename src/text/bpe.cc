#include "text/bpe.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/log.h"
#include "text/byte_text.h"

namespace thermocline::text {
namespace {

struct MergeSides {
  std::string_view left, right;
};

// At the first space that is not the first character, which may be part of the
// left side. nullopt: a side is missing.
std::optional<MergeSides> ParseMerge(std::string_view merge) {
  const size_t space = merge.find(' ', 1);
  if (space == std::string_view::npos || space + 1 == merge.size()) {
    return std::nullopt;
  }
  return MergeSides{merge.substr(0, space), merge.substr(space + 1)};
}

}  // namespace

BpeTokenizer::BpeTokenizer(Vocab vocab) : VocabTokenizer(std::move(vocab)) {}

Result<std::unique_ptr<const BpeTokenizer>> BpeTokenizer::Create(Vocab vocab) {
  std::unique_ptr<BpeTokenizer> tokenizer(new BpeTokenizer(std::move(vocab)));
  TC_ASSIGN_OR_RETURN(tokenizer->pre_tokenizer_,
                      PreTokenizer::Create(tokenizer->vocab_.pre));
  TC_RETURN_IF_ERROR(tokenizer->ReadMerges());
  tokenizer->ReadBytes();
  if (tokenizer->pre_tokenizer_.ignore_merges()) tokenizer->ReadWords();
  TC_RETURN_IF_ERROR(tokenizer->Init());
  return tokenizer;
}

BpeTokenizer::Symbol BpeTokenizer::Intern(std::string_view text) {
  if (const std::optional<TokenId> id = FindPlain(text)) {
    return static_cast<Symbol>(*id);
  }
  const auto found = other_symbols_.find(text);
  if (found != other_symbols_.end()) return found->second;
  const auto symbol = static_cast<Symbol>(vocab_.tokens.size()) +
                      static_cast<Symbol>(other_texts_.size());
  other_texts_.emplace_back(text);
  other_symbols_.emplace(other_texts_.back(), symbol);
  return symbol;
}

Status BpeTokenizer::ReadMerges() {
  // Three texts a merge, and the bytes, keep symbols within 32 bits.
  constexpr size_t kMaxMerges = size_t{1} << 29;
  if (vocab_.merges.size() > kMaxMerges) {
    return Fail(ErrorCode::kCorrupt, "vocabulary: {} merges are too many",
                vocab_.merges.size());
  }
  merges_.Reserve(vocab_.merges.size());
  std::string merged;
  for (size_t i = 0; i < vocab_.merges.size(); ++i) {
    const std::optional<MergeSides> sides = ParseMerge(vocab_.merges[i]);
    if (!sides) {
      return Fail(ErrorCode::kCorrupt,
                  "vocabulary: merge {} is not two texts with a space between",
                  i);
    }
    merged.assign(sides->left).append(sides->right);
    merges_.Add(Intern(sides->left), Intern(sides->right), Intern(merged));
  }
  return {};
}

void BpeTokenizer::ReadBytes() {
  int num_missing = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const Symbol symbol = Intern(ByteToText(static_cast<uint8_t>(byte)));
    byte_symbols_[static_cast<size_t>(byte)] = symbol;
    num_missing += IsToken(symbol) ? 0 : 1;
  }
  if (num_missing > 0 && !HasUnknown()) {
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
  return pre_tokenizer_.ForEachWord(
      text, [&](std::string_view word) { EncodeWord(word, scratch, tokens); });
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
    if (IsToken(symbol)) {
      tokens->push_back(static_cast<TokenId>(symbol));
    } else {
      EncodeBytes(symbol, tokens);
    }
  }
}

void BpeTokenizer::EncodeBytes(Symbol symbol,
                               std::vector<TokenId>* tokens) const {
  const size_t other = symbol - vocab_.tokens.size();
  const std::optional<std::string> bytes = TextToBytes(other_texts_[other]);
  if (!bytes) return;  // cannot be: it was merged from bytes
  for (const char c : *bytes) {
    const Symbol byte_symbol = byte_symbols_[static_cast<uint8_t>(c)];
    if (IsToken(byte_symbol)) {
      tokens->push_back(static_cast<TokenId>(byte_symbol));
    } else if (HasUnknown()) {
      tokens->push_back(*vocab_.unk);
    }
  }
}

std::string BpeTokenizer::PieceBytes(TokenId id) const {
  return TextToBytesLenient(TokenText(id));
}

}  // namespace thermocline::text

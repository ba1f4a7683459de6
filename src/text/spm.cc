#include "text/spm.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "base/log.h"
#include "text/utf8.h"
#include "text/vocab_rules.h"

namespace thermocline::text {
namespace {

constexpr std::string_view kSpace = "\u2581";  // how vocabularies write ' '

// Position of the first space behind something other than a space, or npos.
size_t FindInnerSpace(std::string_view escaped) {
  size_t pos = 0;
  while (escaped.substr(pos).starts_with(kSpace)) pos += kSpace.size();
  return escaped.find(kSpace, pos);
}

}  // namespace

SpmTokenizer::SpmTokenizer(Vocab vocab) : VocabTokenizer(std::move(vocab)) {
  byte_tokens_.fill(-1);
  for (const std::string& token : vocab_.tokens) {
    max_token_bytes_ = std::max(max_token_bytes_, token.size());
    if (FindPlain(token) && FindInnerSpace(token) != std::string_view::npos) {
      words_are_independent_ = false;
    }
  }
}

Result<std::unique_ptr<const SpmTokenizer>> SpmTokenizer::Create(Vocab vocab) {
  std::unique_ptr<SpmTokenizer> tokenizer(new SpmTokenizer(std::move(vocab)));
  TC_RETURN_IF_ERROR(tokenizer->FindByteTokens());
  tokenizer->RankScores();
  TC_RETURN_IF_ERROR(tokenizer->Init());
  return tokenizer;
}

Status SpmTokenizer::FindByteTokens() {
  for (TokenId id = 0; id < num_tokens(); ++id) {
    if (Type(id) != TokenType::kByte) continue;
    const std::optional<uint8_t> byte = ParseByteToken(TokenText(id));
    if (!byte) {
      return Fail(ErrorCode::kCorrupt,
                  "vocabulary: token {} has type byte, but its text is not of "
                  "the form <0xHH>",
                  id);
    }
    if (byte_tokens_[*byte] < 0) byte_tokens_[*byte] = id;
  }
  const auto num_missing =
      std::count(byte_tokens_.begin(), byte_tokens_.end(), -1);
  if (num_missing > 0 && !HasUnknown()) {
    LogInfo(
        "the vocabulary lacks tokens for {} of 256 bytes and has no unknown "
        "token; text that needs them is left out",
        num_missing);
  }
  return {};
}

void SpmTokenizer::RankScores() {
  std::vector<float> sorted = vocab_.scores;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  ranks_.assign(vocab_.tokens.size(), 0);
  for (size_t i = 0; i < vocab_.scores.size(); ++i) {
    const auto found = std::lower_bound(sorted.begin(), sorted.end(),
                                        vocab_.scores[i], std::greater<>());
    ranks_[i] = static_cast<uint32_t>(found - sorted.begin());
  }
}

void SpmTokenizer::AppendEscaped(std::string_view text, std::string* escaped) {
  for (const char c : text) {
    if (c == ' ') {
      *escaped += kSpace;
    } else {
      escaped->push_back(c);
    }
  }
}

size_t SpmTokenizer::WordLength(std::string_view escaped) const {
  if (!words_are_independent_) return escaped.size();
  return std::min(FindInnerSpace(escaped), escaped.size());
}

Status SpmTokenizer::EncodePlain(std::string_view text, bool continues,
                                 EncodeScratch& scratch,
                                 std::vector<TokenId>* tokens) const {
  scratch.text.clear();
  if (vocab_.add_space_prefix && !continues) scratch.text += kSpace;
  AppendEscaped(text, &scratch.text);
  std::string_view rest = scratch.text;
  while (!rest.empty()) {
    const size_t num_bytes = WordLength(rest);
    EncodeWord(rest.substr(0, num_bytes), scratch, tokens);
    rest.remove_prefix(num_bytes);
  }
  return {};
}

void SpmTokenizer::EncodeWord(std::string_view word, EncodeScratch& scratch,
                              std::vector<TokenId>* tokens) const {
  scratch.symbols.clear();  // their lengths
  scratch.offsets.clear();
  for (size_t offset = 0; offset < word.size();) {
    const size_t n = std::max<size_t>(Utf8CharLength(word.substr(offset)), 1);
    scratch.symbols.push_back(static_cast<uint32_t>(n));
    scratch.offsets.push_back(static_cast<uint32_t>(offset));
    offset += n;
  }
  scratch.merger.Run(
      &scratch.symbols,
      [&](uint32_t i, uint32_t left_bytes,
          uint32_t right_bytes) -> std::optional<PairMerge> {
        const uint32_t num_bytes = left_bytes + right_bytes;
        if (num_bytes > max_token_bytes_) return std::nullopt;
        const std::optional<TokenId> id =
            FindPlain(word.substr(scratch.offsets[i], num_bytes));
        if (!id) return std::nullopt;
        return PairMerge{ranks_[static_cast<size_t>(*id)], num_bytes};
      });
  size_t offset = 0;
  for (const uint32_t num_bytes : scratch.symbols) {
    const std::string_view piece = word.substr(offset, num_bytes);
    if (const std::optional<TokenId> id = FindPlain(piece)) {
      tokens->push_back(*id);
    } else {
      EncodeUnknown(piece, tokens);
    }
    offset += num_bytes;
  }
}

void SpmTokenizer::EncodeUnknown(std::string_view bytes,
                                 std::vector<TokenId>* tokens) const {
  const auto token_of = [this](char c) {
    return byte_tokens_[static_cast<uint8_t>(c)];
  };
  const bool all_known = std::all_of(bytes.begin(), bytes.end(),
                                     [&](char c) { return token_of(c) >= 0; });
  if (all_known) {
    for (const char c : bytes) tokens->push_back(token_of(c));
  } else if (HasUnknown()) {
    tokens->push_back(*vocab_.unk);
  }
}

std::string SpmTokenizer::PieceBytes(TokenId id) const {
  const std::string& text = TokenText(id);
  if (Type(id) == TokenType::kByte) {
    return std::string(1, static_cast<char>(*ParseByteToken(text)));
  }
  std::string piece;
  for (size_t i = 0; i < text.size();) {
    if (std::string_view(text).substr(i).starts_with(kSpace)) {
      piece.push_back(' ');
      i += kSpace.size();
    } else {
      piece.push_back(text[i++]);
    }
  }
  return piece;
}

}  // namespace thermocline::text

#include "text/char_pieces.h"

#include <algorithm>

#include "base/log.h"
#include "text/vocab_rules.h"

namespace thermocline::text {

void AppendEscaped(std::string_view text, std::string* escaped) {
  for (const char c : text) {
    if (c == ' ') {
      *escaped += kEscapedSpace;
    } else {
      escaped->push_back(c);
    }
  }
}

size_t FindInnerSpace(std::string_view escaped) {
  size_t pos = 0;
  while (escaped.substr(pos).starts_with(kEscapedSpace)) {
    pos += kEscapedSpace.size();
  }
  return escaped.find(kEscapedSpace, pos);
}

size_t WordLength(std::string_view text) {
  bool is_inside = false;
  for (size_t i = 0; i < text.size();) {
    const bool is_escaped = text.substr(i).starts_with(kEscapedSpace);
    const bool is_space = is_escaped || text[i] == ' ';
    if (is_inside && is_space) return i;
    is_inside = !is_space;
    i += is_escaped ? kEscapedSpace.size() : 1;
  }
  return text.size();
}

std::string CharPieceBytes(const Vocab& vocab, TokenId id) {
  const std::string& text = vocab.tokens[static_cast<size_t>(id)];
  if (vocab.types[static_cast<size_t>(id)] == TokenType::kByte) {
    return std::string(1, static_cast<char>(*ParseByteToken(text)));
  }
  std::string piece;
  for (size_t i = 0; i < text.size();) {
    if (std::string_view(text).substr(i).starts_with(kEscapedSpace)) {
      piece.push_back(' ');
      i += kEscapedSpace.size();
    } else {
      piece.push_back(text[i++]);
    }
  }
  return piece;
}

Status ByteTokens::Read(const Vocab& vocab, std::optional<TokenId> unknown) {
  unknown_ = unknown;
  ids_.fill(-1);
  for (size_t i = 0; i < vocab.tokens.size(); ++i) {
    if (vocab.types[i] != TokenType::kByte) continue;
    const std::optional<uint8_t> byte = ParseByteToken(vocab.tokens[i]);
    if (!byte) {
      return Fail(ErrorCode::kCorrupt,
                  "vocabulary: token {} has type byte, but its text is not of "
                  "the form <0xHH>",
                  i);
    }
    if (ids_[*byte] < 0) ids_[*byte] = static_cast<TokenId>(i);
  }
  const auto num_missing = std::count(ids_.begin(), ids_.end(), -1);
  if (num_missing > 0 && !unknown) {
    LogInfo(
        "the vocabulary lacks tokens for {} of 256 bytes and has no unknown "
        "token; text that needs them is left out",
        num_missing);
  }
  return {};
}

void ByteTokens::Append(std::string_view bytes,
                        std::vector<TokenId>* tokens) const {
  const auto token_of = [this](char c) {
    return ids_[static_cast<uint8_t>(c)];
  };
  const bool all_known = std::all_of(bytes.begin(), bytes.end(),
                                     [&](char c) { return token_of(c) >= 0; });
  if (all_known) {
    for (const char c : bytes) tokens->push_back(token_of(c));
  } else if (unknown_) {
    tokens->push_back(*unknown_);
  }
}

}  // namespace thermocline::text

#include "text/spm.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "text/utf8.h"

namespace thermocline::text {
SpmTokenizer::SpmTokenizer(Vocab vocab) : VocabTokenizer(std::move(vocab)) {
  for (const std::string& token : vocab_.tokens) {
    max_token_bytes_ = std::max(max_token_bytes_, token.size());
    if (FindPlain(token) && FindInnerSpace(token) != std::string_view::npos) {
      words_are_independent_ = false;
    }
  }
}

Result<std::unique_ptr<const SpmTokenizer>> SpmTokenizer::Create(Vocab vocab) {
  std::unique_ptr<SpmTokenizer> tokenizer(new SpmTokenizer(std::move(vocab)));
  TC_RETURN_IF_ERROR(
      tokenizer->byte_tokens_.Read(tokenizer->vocab_, tokenizer->Unknown()));
  tokenizer->RankScores();
  TC_RETURN_IF_ERROR(tokenizer->Init());
  return tokenizer;
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

Status SpmTokenizer::EncodePlain(std::string_view text, bool continues,
                                 EncodeScratch& scratch,
                                 std::vector<TokenId>* tokens) const {
  if (vocab_.add_space_prefix && !continues) {
    const size_t num_bytes =
        words_are_independent_ ? WordLength(text) : text.size();
    scratch.text = kEscapedSpace;
    AppendEscaped(text.substr(0, num_bytes), &scratch.text);
    EncodeWord(scratch.text, scratch, tokens);
    text.remove_prefix(num_bytes);
  }
  EncodeEscaped(
      text, words_are_independent_, scratch, tokens,
      [&](std::string_view word) { EncodeWord(word, scratch, tokens); });
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
      byte_tokens_.Append(piece, tokens);
    }
    offset += num_bytes;
  }
}

std::string SpmTokenizer::PieceBytes(TokenId id) const {
  return CharPieceBytes(vocab_, id);
}

}  // namespace thermocline::text

#include "text/tokenizer.h"

#include <utility>

#include "text/bpe.h"
#include "text/char_bpe.h"
#include "text/spm.h"
#include "text/vocab_rules.h"

namespace thermocline::text {

Result<std::unique_ptr<const Tokenizer>> Tokenizer::Create(Vocab vocab) {
  TC_RETURN_IF_ERROR(CheckVocab(vocab));
  CompleteTypes(&vocab);
  if (vocab.kind == VocabKind::kSpm) {
    TC_ASSIGN_OR_RETURN(std::unique_ptr<const Tokenizer> tokenizer,
                        SpmTokenizer::Create(std::move(vocab)));
    return tokenizer;
  }
  if (vocab.kind == VocabKind::kCharBpe) {
    TC_ASSIGN_OR_RETURN(std::unique_ptr<const Tokenizer> tokenizer,
                        CharBpeTokenizer::Create(std::move(vocab)));
    return tokenizer;
  }
  TC_ASSIGN_OR_RETURN(std::unique_ptr<const Tokenizer> tokenizer,
                      BpeTokenizer::Create(std::move(vocab)));
  return tokenizer;
}

std::string Tokenizer::Decode(std::span<const TokenId> ids,
                              bool show_special) const {
  const bool has_prefix =
      vocab_.kind == VocabKind::kSpm && vocab_.add_space_prefix;
  std::string text;
  bool starts_text = true;  // Encode puts the space in front of what is next
  for (const TokenId id : ids) {
    std::string_view piece = Piece(id, show_special);
    if (PartsText(id)) {
      const bool is_nothing = starts_text && id == vocab_.bos;
      starts_text = !vocab_.space_prefix_once || is_nothing;
    } else {
      if (has_prefix && starts_text && !IsSpecial(id) &&
          piece.starts_with(' ')) {
        piece.remove_prefix(1);
      }
      starts_text = false;
    }
    text += piece;
  }
  return text;
}

bool Tokenizer::IsSpecial(TokenId id) const {
  if (id < 0 || id >= num_tokens()) return false;
  const TokenType type = vocab_.types[static_cast<size_t>(id)];
  return type == TokenType::kControl || type == TokenType::kUserDefined;
}

bool Tokenizer::HasSpecial(std::string_view text) const {
  for (TokenId id = 0; id < num_tokens(); ++id) {
    if (vocab_.tokens[static_cast<size_t>(id)] == text && IsSpecial(id)) {
      return true;
    }
  }
  return false;
}

bool Tokenizer::PartsText(TokenId id) const {
  return IsSpecial(id) && !is_inner_[static_cast<size_t>(id)];
}

bool Tokenizer::IsEndOfGeneration(TokenId id) const {
  return id >= 0 && static_cast<size_t>(id) < ends_generation_.size() &&
         ends_generation_[static_cast<size_t>(id)];
}

}  // namespace thermocline::text

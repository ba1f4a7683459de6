#include "text/vocab_tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "text/utf8.h"
#include "text/vocab_rules.h"

namespace thermocline::text {
namespace {

Status CheckLength(size_t num_bytes) {
  if (num_bytes <= kMaxTextBytes) return {};
  return Fail(ErrorCode::kResourceExhausted,
              "a text of {} is longer than the tokenizer takes ({})",
              FormatBytes(num_bytes), FormatBytes(kMaxTextBytes));
}

}  // namespace

VocabTokenizer::VocabTokenizer(Vocab vocab) : Tokenizer(std::move(vocab)) {
  plain_ids_.reserve(vocab_.tokens.size());
  for (TokenId id = 0; id < num_tokens(); ++id) {
    const bool is_byte =
        vocab_.kind != VocabKind::kBpe && Type(id) == TokenType::kByte;
    if (IsHidden(id) || is_byte || TokenText(id).empty()) continue;
    plain_ids_.try_emplace(TokenText(id), id);
  }
}

Status VocabTokenizer::Init() {
  TC_RETURN_IF_ERROR(BuildFinders());
  swallows_space_ = FindSpaceSwallowers(vocab_);
  swallows_space_before_.resize(vocab_.tokens.size());
  for (const TokenId id : vocab_.lstrip) {
    swallows_space_before_[static_cast<size_t>(id)] = true;
  }
  is_inner_ = FindInnerSymbols(vocab_);
  ends_generation_ = FindEndsOfGeneration(vocab_);
  BuildPieces();
  return {};
}

Status VocabTokenizer::BuildFinders() {
  std::vector<TokenId> user_defined, all;
  for (TokenId id = 0; id < num_tokens(); ++id) {
    const bool is_user_defined = Type(id) == TokenType::kUserDefined;
    if (is_user_defined) user_defined.push_back(id);
    if (is_user_defined || IsHidden(id)) all.push_back(id);
  }
  TC_ASSIGN_OR_RETURN(all_special_,
                      SpecialTokenFinder::Create(vocab_.tokens, all));
  if (user_defined.size() == all.size()) return {};
  TC_ASSIGN_OR_RETURN(user_defined_,
                      SpecialTokenFinder::Create(vocab_.tokens, user_defined));
  return {};
}

void VocabTokenizer::BuildPieces() {
  piece_begins_.reserve(vocab_.tokens.size() + 1);
  piece_begins_.push_back(0);
  for (TokenId id = 0; id < num_tokens(); ++id) {
    if (Type(id) == TokenType::kUserDefined) {
      pieces_ += TokenText(id);
    } else if (!IsHidden(id) && Type(id) != TokenType::kUnused) {
      pieces_ += PieceBytes(id);
    }
    piece_begins_.push_back(pieces_.size());
  }
}

std::optional<TokenId> VocabTokenizer::FindPlain(std::string_view text) const {
  const auto found = plain_ids_.find(text);
  if (found == plain_ids_.end()) return std::nullopt;
  return found->second;
}

Status VocabTokenizer::EncodeAround(std::string_view text,
                                    std::span<const SpecialMatch> matches,
                                    std::optional<TokenId> previous,
                                    std::vector<TokenId>* tokens) const {
  EncodeScratch scratch;
  // Whether what follows that token continues its text.
  const auto continues_behind = [this](TokenId token) {
    return !PartsText(token) || vocab_.space_prefix_once;
  };
  bool continues = previous.has_value() && continues_behind(*previous);
  bool swallow = previous.has_value() && IsSpecial(*previous) &&
                 swallows_space_[static_cast<size_t>(*previous)];
  size_t done = 0;
  for (const SpecialMatch& match : matches) {
    const auto token = static_cast<size_t>(match.token);
    std::string_view plain = text.substr(done, match.begin - done);
    if (swallow) plain = SkipWhiteSpace(plain);
    if (swallows_space_before_[token]) plain = WithoutTrailingSpace(plain);
    if (!plain.empty() || (is_inner_[token] && !continues)) {
      TC_RETURN_IF_ERROR(EncodePlain(plain, continues, scratch, tokens));
    }
    tokens->push_back(match.token);
    done = match.end;
    continues = continues_behind(match.token);
    swallow = swallows_space_[token];
  }
  std::string_view plain = text.substr(done);
  if (swallow) plain = SkipWhiteSpace(plain);
  if (plain.empty()) return {};
  return EncodePlain(plain, continues, scratch, tokens);
}

Result<std::vector<TokenId>> VocabTokenizer::Encode(
    std::string_view text, const EncodeOptions& options) const {
  TC_RETURN_IF_ERROR(CheckLength(text.size()));
  const SpecialTokenFinder& finder =
      options.parse_special ? all_special_ : ContentFinder();
  std::vector<TokenId> tokens;
  if (const auto bos = vocab_.added_bos(); options.add_special && bos) {
    tokens.push_back(*bos);
  }
  TC_RETURN_IF_ERROR(
      EncodeAround(text, finder.Find(text), std::nullopt, &tokens));
  if (options.add_special && vocab_.add_eos && vocab_.eos) {
    tokens.push_back(*vocab_.eos);
  }
  return tokens;
}

Result<std::vector<TokenId>> VocabTokenizer::EncodeParts(
    std::span<const TextPart> parts, const EncodePartsOptions& options) const {
  size_t num_bytes = 0;
  for (const TextPart& part : parts) num_bytes += part.text.size();
  TC_RETURN_IF_ERROR(CheckLength(num_bytes));
  std::string text;
  text.reserve(num_bytes);
  std::vector<SpecialMatch> matches;
  for (const TextPart& part : parts) {
    const auto begin = static_cast<uint32_t>(text.size());
    const SpecialTokenFinder& finder =
        part.is_markup ? all_special_ : ContentFinder();
    for (SpecialMatch match : finder.Find(part.text)) {
      if (!part.is_markup &&
          std::ranges::binary_search(options.reserved, match.token)) {
        continue;
      }
      match.begin += begin;
      match.end += begin;
      matches.push_back(match);
    }
    text += part.text;
  }
  std::vector<TokenId> tokens;
  TC_RETURN_IF_ERROR(EncodeAround(text, matches, options.previous, &tokens));
  return tokens;
}

std::string_view VocabTokenizer::Piece(TokenId id, bool show_special) const {
  TC_CHECK(id >= 0 && id < num_tokens());
  if (IsHidden(id)) return show_special ? TokenText(id) : std::string_view();
  const auto i = static_cast<size_t>(id);
  return std::string_view(pieces_).substr(
      piece_begins_[i], piece_begins_[i + 1] - piece_begins_[i]);
}

}  // namespace thermocline::text

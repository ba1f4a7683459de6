#include "text/vocab_tokenizer.h"

#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "text/vocab_rules.h"

namespace thermocline::text {
namespace {

// Keeps offsets, three bytes per escaped space included, within 32 bits, and
// the number of tokens far from the limit of what takes them.
constexpr size_t kMaxTextBytes = kGiB;

std::string_view SkipSpaces(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\n\v\f\r");
  return begin == std::string_view::npos ? "" : text.substr(begin);
}

}  // namespace

VocabTokenizer::VocabTokenizer(Vocab vocab) : Tokenizer(std::move(vocab)) {
  plain_ids_.reserve(vocab_.tokens.size());
  for (TokenId id = 0; id < num_tokens(); ++id) {
    const bool is_spm_byte =
        vocab_.kind == VocabKind::kSpm && Type(id) == TokenType::kByte;
    if (IsHidden(id) || is_spm_byte || TokenText(id).empty()) continue;
    plain_ids_.try_emplace(TokenText(id), id);
  }
}

Status VocabTokenizer::Init() {
  TC_RETURN_IF_ERROR(BuildFinders());
  swallows_space_ = FindSpaceSwallowers(vocab_);
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
    } else if (!IsHidden(id)) {
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

Result<std::vector<TokenId>> VocabTokenizer::Encode(
    std::string_view text, const EncodeOptions& options) const {
  if (text.size() > kMaxTextBytes) {
    return Fail(ErrorCode::kResourceExhausted,
                "a text of {} is longer than the tokenizer takes ({})",
                FormatBytes(text.size()), FormatBytes(kMaxTextBytes));
  }
  const SpecialTokenFinder& finder =
      options.parse_special || !user_defined_ ? all_special_ : *user_defined_;
  std::vector<TokenId> tokens;
  EncodeScratch scratch;
  if (options.add_special && vocab_.add_bos && vocab_.bos) {
    tokens.push_back(*vocab_.bos);
  }
  size_t done = 0;
  bool swallow = false;
  const auto encode_until = [&](size_t end) -> Status {
    std::string_view plain = text.substr(done, end - done);
    if (swallow) plain = SkipSpaces(plain);
    if (plain.empty()) return {};
    return EncodePlain(plain, scratch, &tokens);
  };
  for (const SpecialMatch& match : finder.Find(text)) {
    TC_RETURN_IF_ERROR(encode_until(match.begin));
    tokens.push_back(match.token);
    done = match.end;
    swallow = swallows_space_[static_cast<size_t>(match.token)];
  }
  TC_RETURN_IF_ERROR(encode_until(text.size()));
  if (options.add_special && vocab_.add_eos && vocab_.eos) {
    tokens.push_back(*vocab_.eos);
  }
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

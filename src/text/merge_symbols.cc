#include "text/merge_symbols.h"

namespace thermocline::text {

std::optional<MergeSides> ParseMerge(std::string_view merge) {
  const size_t space = merge.find(' ', 1);
  if (space == std::string_view::npos || space + 1 == merge.size()) {
    return std::nullopt;
  }
  return MergeSides{merge.substr(0, space), merge.substr(space + 1)};
}

Status MergeSymbols::Read(const Vocab& vocab, const FindToken& find_token) {
  // Three texts a merge, and the bytes, keep symbols within 32 bits.
  constexpr size_t kMaxMerges = size_t{1} << 29;
  if (vocab.merges.size() > kMaxMerges) {
    return Fail(ErrorCode::kCorrupt, "vocabulary: {} merges are too many",
                vocab.merges.size());
  }
  num_tokens_ = static_cast<Symbol>(vocab.tokens.size());
  merges_.Reserve(vocab.merges.size());
  std::string merged;
  for (size_t i = 0; i < vocab.merges.size(); ++i) {
    const std::optional<MergeSides> sides = ParseMerge(vocab.merges[i]);
    if (!sides) {
      return Fail(ErrorCode::kCorrupt,
                  "vocabulary: merge {} is not two texts with a space between",
                  i);
    }
    merged.assign(sides->left).append(sides->right);
    merges_.Add(Intern(sides->left, find_token),
                Intern(sides->right, find_token), Intern(merged, find_token));
  }
  return {};
}

MergeSymbols::Symbol MergeSymbols::Intern(std::string_view text,
                                          const FindToken& find_token) {
  if (const std::optional<TokenId> id = find_token(text)) {
    return static_cast<Symbol>(*id);
  }
  if (const auto found = FindOther(text)) return *found;
  const Symbol symbol = num_tokens_ + static_cast<Symbol>(other_texts_.size());
  other_texts_.emplace_back(text);
  other_symbols_.emplace(other_texts_.back(), symbol);
  return symbol;
}

std::optional<MergeSymbols::Symbol> MergeSymbols::FindOther(
    std::string_view text) const {
  const auto found = other_symbols_.find(text);
  if (found == other_symbols_.end()) return std::nullopt;
  return found->second;
}

}  // namespace thermocline::text

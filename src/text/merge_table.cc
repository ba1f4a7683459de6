#include "text/merge_table.h"

#include <optional>

#include "base/check.h"

namespace thermocline::text {
namespace {

uint64_t Key(MergeTable::Symbol left, MergeTable::Symbol right) {
  return uint64_t{left} << 32 | right;
}

}  // namespace

void MergeTable::Add(Symbol left, Symbol right, Symbol merged) {
  TC_CHECK(merges_.size() < PairMerger::kDead);
  const auto rank = static_cast<uint32_t>(merges_.size());
  merges_.try_emplace(Key(left, right), PairMerge{rank, merged});
}

void MergeTable::Apply(std::vector<Symbol>* symbols, PairMerger* merger) const {
  merger->Run(
      symbols,
      [this](uint32_t, Symbol left, Symbol right) -> std::optional<PairMerge> {
        const auto merge = merges_.find(Key(left, right));
        if (merge == merges_.end()) return std::nullopt;
        return merge->second;
      });
}

}  // namespace thermocline::text

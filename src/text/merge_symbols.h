// The merges of a vocabulary as numbers, with the texts that they go through.
#ifndef THERMOCLINE_TEXT_MERGE_SYMBOLS_H_
#define THERMOCLINE_TEXT_MERGE_SYMBOLS_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/keyed_hash.h"
#include "base/status.h"
#include "text/merge_table.h"
#include "text/vocab.h"

namespace thermocline::text {

struct MergeSides {
  std::string_view left, right;
};

// "left right": at the first space that is not the first character, which may
// be part of the left side. nullopt: a side is missing.
std::optional<MergeSides> ParseMerge(std::string_view merge);

// Threads  safe from any number once nothing is added any more.
class MergeSymbols {
 public:
  // A token's id where a text is one, else V and up: an intermediate result.
  using Symbol = MergeTable::Symbol;
  using FindToken = std::function<std::optional<TokenId>(std::string_view)>;

  // `find_token` gives the token that plain text may become. A merge whose
  // sides or result are no tokens is kept: others may lead from it to a token.
  // kCorrupt: a merge without two sides, named by number; more than 2^29.
  Status Read(const Vocab& vocab, const FindToken& find_token);

  // The symbol of a text, made where there is none. Requires Read.
  Symbol Intern(std::string_view text, const FindToken& find_token);

  // The symbol of a text that is no token; nullopt: no merge has it.
  std::optional<Symbol> FindOther(std::string_view text) const;

  bool IsToken(Symbol symbol) const { return symbol < num_tokens_; }

  // Requires a symbol that is no token.
  const std::string& TextOf(Symbol symbol) const {
    return other_texts_[symbol - num_tokens_];
  }

  // Merges the symbols of one word until nothing more merges.
  void Apply(std::vector<Symbol>* symbols, PairMerger* merger) const {
    merges_.Apply(symbols, merger);
  }

 private:
  Symbol num_tokens_ = 0;
  MergeTable merges_;
  std::deque<std::string> other_texts_;  // of the symbols from V on
  std::unordered_map<std::string_view, Symbol, KeyedHash> other_symbols_;
};

}  // namespace thermocline::text

#endif  // THERMOCLINE_TEXT_MERGE_SYMBOLS_H_

// The tokens that words of a text had before in it. Few words of a text are
// new.
#ifndef THERMOCLINE_TEXT_WORD_MEMORY_H_
#define THERMOCLINE_TEXT_WORD_MEMORY_H_

#include <cstddef>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/keyed_hash.h"
#include "text/vocab.h"

namespace thermocline::text {

// Of one text. Threads: one at a time.
class WordMemory {
 public:
  // Appends the tokens of `word`: those that it had before, else what encode()
  // appends. Requires that all words stay where they are, and that `tokens` is
  // always the same, to which is only ever added.
  template <typename Encode>
  void Append(std::string_view word, std::vector<TokenId>* tokens,
              Encode&& encode);

 private:
  static constexpr size_t kMostBytes = 64;  // longer ones seldom come again
  static constexpr size_t kMostWords = size_t{1} << 16;  // some megabytes

  struct Span {
    size_t begin, end;  // among all tokens
  };
  std::unordered_map<std::string_view, Span, KeyedHash> words_;
};

template <typename Encode>
void WordMemory::Append(std::string_view word, std::vector<TokenId>* tokens,
                        Encode&& encode) {
  if (word.size() < 2 || word.size() > kMostBytes ||
      (words_.size() >= kMostWords && !words_.contains(word))) {
    encode();
    return;
  }
  const auto [known, is_new] = words_.try_emplace(word);
  Span& span = known->second;
  if (is_new) {
    span.begin = tokens->size();
    encode();
    span.end = tokens->size();
    return;
  }
  for (size_t i = span.begin; i < span.end; ++i) {
    const TokenId id = (*tokens)[i];
    tokens->push_back(id);
  }
}

}  // namespace thermocline::text

#endif  // THERMOCLINE_TEXT_WORD_MEMORY_H_

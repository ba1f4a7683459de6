// Cuts text into the words that byte-level BPE merges within. Each family of
// models has its own rules; files name them in `tokenizer.ggml.pre`. They are
// the models' own patterns, word for word: scanners written by hand would be a
// second truth.
#ifndef THERMOCLINE_TEXT_PRETOKENIZER_H_
#define THERMOCLINE_TEXT_PRETOKENIZER_H_

#include <functional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/regex.h"

namespace thermocline::text {

// True where vocabularies with this pre-tokenizer put BOS in front of texts
// unless their file says otherwise. False for unknown names.
bool AddsBos(std::string_view pre_tokenizer);

// Immutable, so safe from any number of threads.
class PreTokenizer {
 public:
  // By the name in the file; an empty name, or "default", means rules that fit
  // few models, and logs a warning. kUnsupported: unknown, named.
  static Result<PreTokenizer> Create(std::string_view name);

  // Calls `emit` for each word in order; joined they are `text`, none is empty.
  // Any bytes: those that are not UTF-8 count as symbols, neither letter, digit
  // nor space. Linear time. kResourceExhausted: a pattern gave up.
  Status ForEachWord(
      std::string_view text,
      const std::function<void(std::string_view word)>& emit) const;

  // True where a word that is a token is taken as it is, whatever the merges
  // would make of it.
  bool ignore_merges() const { return ignore_merges_; }

 private:
  std::vector<Regex> stages_;  // each cuts the pieces of the one before it
  bool ignore_merges_ = false;
};

}  // namespace thermocline::text

#endif  // THERMOCLINE_TEXT_PRETOKENIZER_H_

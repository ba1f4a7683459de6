// The vocabulary of synthetic models, and what they write: words of letters,
// each of which is followed by one certain other.
#ifndef THERMOCLINE_SYNTH_VOCAB_H_
#define THERMOCLINE_SYNTH_VOCAB_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "text/vocab.h"

namespace thermocline::synth {

// A SentencePiece vocabulary of `size` tokens: specials and bytes, letters,
// pairs of letters, and words of one to four letters with the space before
// them. Of every word each beginning is a token too, so that merging finds it.
// Requires size >= kMinSynthVocab and at most what words of four letters fill.
// (CHECKed)
inline constexpr size_t kMinSynthVocab = 2048;
text::Vocab MakeSynthVocab(size_t size);

inline constexpr uint64_t kTopicWords = 256;

// A round trip through all words of at least two letters, in an order that the
// seed chooses.
class WordCycle {
 public:
  WordCycle(const text::Vocab& vocab, uint64_t seed);

  size_t num_words() const { return words_.size(); }

  // The word that leads to this one; nullopt for tokens that are no words.
  std::optional<text::TokenId> Before(text::TokenId id) const;

  // The topic of a word: the cycle runs through the topics 0 to num_topics - 1
  // again and again, kTopicWords words in each, or fewer where there are not
  // that many words. 0 for tokens that are no words. Requires num_topics > 0.
  uint64_t TopicOf(text::TokenId id, uint64_t num_topics) const;

  // num_words words from some word on, words_per_line in each line (0: all in
  // one): what follows a line's end has no space before it, and is cut into
  // letters by those who read several lines as one text.
  std::string Text(const text::Vocab& vocab, size_t num_words,
                   size_t words_per_line = 0) const;

 private:
  std::vector<text::TokenId> words_;  // in their order
  std::vector<uint32_t> place_;       // of each token; kNoPrevious
};

}  // namespace thermocline::synth

#endif  // THERMOCLINE_SYNTH_VOCAB_H_

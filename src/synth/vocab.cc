#include "synth/vocab.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/random.h"

namespace thermocline::synth {
namespace {

constexpr std::string_view kWordSpace = "\u2581";
constexpr size_t kNumLetters = 26;
constexpr uint32_t kNoPrevious = UINT32_MAX;

using text::TokenType;

void Append(text::Vocab& vocab, std::string token, TokenType type) {
  // Earlier pieces merge first.
  vocab.scores.push_back(-static_cast<float>(vocab.tokens.size()));
  vocab.tokens.push_back(std::move(token));
  vocab.types.push_back(type);
}

// Word `i` of all that have `length` letters: the last letter changes first.
std::string Letters(size_t i, size_t length) {
  std::string letters(length, 'a');
  for (size_t k = length; k > 0; --k, i /= kNumLetters) {
    letters[k - 1] = static_cast<char>('a' + i % kNumLetters);
  }
  return letters;
}

void AppendWords(text::Vocab& vocab, std::string_view before, size_t length,
                 size_t size) {
  size_t count = 1;
  for (size_t k = 0; k < length; ++k) count *= kNumLetters;
  for (size_t i = 0; i < count && vocab.tokens.size() < size; ++i) {
    Append(vocab, std::string(before) + Letters(i, length), TokenType::kNormal);
  }
}

bool IsWord(std::string_view token) {
  return token.starts_with(kWordSpace) && token.size() >= kWordSpace.size() + 2;
}

}  // namespace

text::Vocab MakeSynthVocab(size_t size) {
  TC_CHECK(size >= kMinSynthVocab);
  text::Vocab vocab = {.kind = text::VocabKind::kSpm,
                       .bos = 1,
                       .eos = 2,
                       .unk = 0,
                       .add_bos = true,
                       .add_space_prefix = true};
  Append(vocab, "<unk>", TokenType::kUnknown);
  Append(vocab, "<s>", TokenType::kControl);
  Append(vocab, "</s>", TokenType::kControl);
  for (int byte = 0; byte < 256; ++byte) {
    Append(vocab, fmt::format("<0x{:02X}>", byte), TokenType::kByte);
  }
  Append(vocab, std::string(kWordSpace), TokenType::kNormal);
  AppendWords(vocab, "", 1, size);
  AppendWords(vocab, kWordSpace, 1, size);
  AppendWords(vocab, kWordSpace, 2, size);
  AppendWords(vocab, "", 2, size);
  AppendWords(vocab, kWordSpace, 3, size);
  AppendWords(vocab, kWordSpace, 4, size);
  TC_CHECK(vocab.tokens.size() == size);
  return vocab;
}

WordCycle::WordCycle(const text::Vocab& vocab, uint64_t seed)
    : place_(vocab.tokens.size(), kNoPrevious) {
  for (size_t id = 0; id < vocab.tokens.size(); ++id) {
    if (IsWord(vocab.tokens[id])) {
      words_.push_back(static_cast<text::TokenId>(id));
    }
  }
  Random random(seed);
  for (size_t i = 0; i + 1 < words_.size(); ++i) {
    std::swap(words_[i], words_[i + random.Below(words_.size() - i)]);
  }
  for (size_t i = 0; i < words_.size(); ++i) {
    place_[static_cast<size_t>(words_[i])] = static_cast<uint32_t>(i);
  }
}

std::optional<text::TokenId> WordCycle::Before(text::TokenId id) const {
  const uint32_t place = place_[static_cast<size_t>(id)];
  if (place == kNoPrevious) return std::nullopt;
  return words_[(place + words_.size() - 1) % words_.size()];
}

uint64_t WordCycle::TopicOf(text::TokenId id, uint64_t num_topics) const {
  const uint32_t place = place_[static_cast<size_t>(id)];
  if (place == kNoPrevious) return 0;
  const uint64_t stretch =
      std::clamp<uint64_t>(words_.size() / num_topics, 1, kTopicWords);
  return place / stretch % num_topics;
}

std::string WordCycle::Text(const text::Vocab& vocab, size_t num_words,
                            size_t words_per_line) const {
  std::string text;
  for (size_t i = 0; i < num_words; ++i) {
    const auto id = static_cast<size_t>(words_[i % words_.size()]);
    text += vocab.tokens[id].substr(kWordSpace.size());
    const bool ends_line =
        i + 1 == num_words ||
        (words_per_line > 0 && (i + 1) % words_per_line == 0);
    text += ends_line ? '\n' : ' ';
  }
  return text;
}

}  // namespace thermocline::synth

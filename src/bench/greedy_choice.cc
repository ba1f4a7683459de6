#include "bench/greedy_choice.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace thermocline::bench {

using text::TokenId;

GreedyChoice::GreedyChoice(const model::Model& model) {
  const text::Tokenizer* tokenizer = model.tokenizer();
  if (tokenizer == nullptr) return;
  for (TokenId id = 0; id < tokenizer->num_tokens(); ++id) {
    if (tokenizer->IsEndOfGeneration(id) &&
        std::cmp_less(id, model.config().vocab_size)) {
      never_chosen_.push_back(static_cast<size_t>(id));
    }
  }
}

TokenId GreedyChoice::Choose(std::span<float> logits) const {
  for (const size_t id : never_chosen_) {
    logits[id] = -std::numeric_limits<float>::infinity();
  }
  return static_cast<TokenId>(std::ranges::max_element(logits) -
                              logits.begin());
}

}  // namespace thermocline::bench

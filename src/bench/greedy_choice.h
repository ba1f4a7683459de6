// The likeliest token, for measurements that go on by themselves.
#ifndef THERMOCLINE_BENCH_GREEDY_CHOICE_H_
#define THERMOCLINE_BENCH_GREEDY_CHOICE_H_

#include <cstddef>
#include <span>
#include <vector>

#include "model/model.h"
#include "text/vocab.h"

namespace thermocline::bench {

// Never a token that ends a text, by which every run has as many tokens as its
// test says.
class GreedyChoice {
 public:
  explicit GreedyChoice(const model::Model& model);

  // Of logits [V], of which it changes those of such tokens; of equals the
  // first.
  text::TokenId Choose(std::span<float> logits) const;

 private:
  std::vector<size_t> never_chosen_;
};

}  // namespace thermocline::bench

#endif  // THERMOCLINE_BENCH_GREEDY_CHOICE_H_

#include "bench/greedy_choice.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace thermocline::bench {
namespace {

TEST(GreedyChoiceTest, TakesTheFirstOfTheLikeliestButNoEnd) {
  const auto model = model::Model::Open(std::string(TC_TEST_DATA) +
                                        "/models/stories260K.gguf");
  ASSERT_TRUE(model.has_value()) << model.error().message;
  const text::Tokenizer* tokenizer = (*model)->tokenizer();
  ASSERT_NE(tokenizer, nullptr);
  text::TokenId end = 0;
  while (!tokenizer->IsEndOfGeneration(end)) ++end;
  std::vector<float> logits((*model)->config().vocab_size, 0.0f);
  logits[static_cast<size_t>(end)] = 9.0f;
  logits[70] = logits[90] = 3.0f;
  EXPECT_EQ(GreedyChoice(**model).Choose(logits), 70);
}

}  // namespace
}  // namespace thermocline::bench

#include "eval/mc_score.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "eval/testing.h"

namespace thermocline::eval {
namespace {

using text::TokenId;

// The sum by the definition: the whole text in one batch, no logarithm of sums.
double Reference(engine::Session& session, Tokens context,
                 const Tokens& continuation) {
  const size_t vocab_size = session.model().config().vocab_size;
  const size_t num_context = context.size();
  context.insert(context.end(), continuation.begin(), continuation.end());
  std::vector<float> logits(context.size() * vocab_size);
  session.Truncate(0);
  EXPECT_TRUE(session.Prompt(context, engine::LogitsOf::kAll, logits));
  session.Truncate(0);
  double product_log = 0.0;
  for (size_t i = 0; i < continuation.size(); ++i) {
    const float* row = logits.data() + (num_context + i - 1) * vocab_size;
    double sum = 0.0;
    for (size_t v = 0; v < vocab_size; ++v) {
      sum += std::exp(static_cast<double>(row[v]));
    }
    const double numerator =
        std::exp(static_cast<double>(row[continuation[i]]));
    product_log += std::log(numerator / sum);
  }
  return product_log;
}

class ScoreMcItemsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    model_ = OpenModel("golden/llama-gqa-f16.gguf");
    ASSERT_NE(model_, nullptr);
    session_ = OpenSession(model_, 100);
    ASSERT_NE(session_, nullptr);
    const auto random = RandomTokens(160, model_->config().vocab_size);
    const auto part = [&](size_t begin, size_t size) {
      return Tokens(random.begin() + static_cast<ptrdiff_t>(begin),
                    random.begin() + static_cast<ptrdiff_t>(begin + size));
    };
    items_ = {
        // One token, several, more than are scored in one piece.
        {.contexts = {part(0, 9)},
         .continuations = {part(20, 1), part(30, 5), part(40, 90)}},
        // Contexts that share a beginning, one the other's beginning.
        {.contexts = {part(0, 12), part(0, 6), part(0, 6)},
         .continuations = {part(50, 3), part(50, 3), part(51, 1)}},
        // The same context again, and another of one token.
        {.contexts = {part(0, 6), part(7, 1)},
         .continuations = {part(60, 2), part(60, 2)}},
    };
  }

  std::shared_ptr<const model::Model> model_;
  std::unique_ptr<engine::Session> session_;
  std::vector<McTokens> items_;
};

TEST_F(ScoreMcItemsTest, FollowsTheDefinition) {
  const auto scores = ScoreMcItems(*session_, items_, "x", {});
  ASSERT_TRUE(scores.has_value()) << scores.error().message;
  EXPECT_EQ(session_->position(), 0);
  ASSERT_EQ(scores->size(), items_.size());
  for (size_t i = 0; i < items_.size(); ++i) {
    ASSERT_EQ((*scores)[i].size(), items_[i].continuations.size());
    for (size_t c = 0; c < items_[i].continuations.size(); ++c) {
      const double want = Reference(*session_, items_[i].context(c),
                                    items_[i].continuations[c]);
      EXPECT_NEAR((*scores)[i][c], want, 1e-9 * std::abs(want));
    }
  }
}

// Neither what was scored before nor the number of threads changes a bit.
TEST_F(ScoreMcItemsTest, SameBitsForEveryOrderAndThreadCount) {
  const auto want = ScoreMcItems(*session_, items_, "x", {});
  ASSERT_TRUE(want.has_value());
  for (const int num_threads : {2, 3}) {
    const auto session = OpenSession(model_, 120, num_threads);
    ASSERT_NE(session, nullptr);
    EXPECT_EQ(ScoreMcItems(*session, items_, "x", {}).value(), *want);
    for (size_t i = items_.size(); i-- > 0;) {
      EXPECT_EQ(ScoreMcItems(*session, std::span(items_).subspan(i, 1), "x", {})
                    .value()
                    .front(),
                (*want)[i]);
    }
  }
}

TEST_F(ScoreMcItemsTest, ReportsProgressAndNamesTheItemOfAnError) {
  std::vector<uint64_t> done;
  items_[2].contexts[1][0] = 9999;
  const auto scores = ScoreMcItems(
      *session_, items_, "dense",
      [&](std::string_view what, uint64_t num_done, uint64_t num_total) {
        EXPECT_EQ(what, "dense");
        EXPECT_EQ(num_total, 3u);
        done.push_back(num_done);
      });
  EXPECT_THAT(done, ::testing::ElementsAre(0, 1, 2));
  EXPECT_THAT(MessageOf(scores), ::testing::StartsWith("item 3: "));
}

TEST(ScoringBytesTest, OfTheRowsThatAreHeldAtOnce) {
  EXPECT_EQ(ScoringBytes(320), 65u * 320 * 4);
}

TEST_F(ScoreMcItemsTest, StopsWhenCancelled) {
  const std::atomic<bool> cancel = true;
  const auto session = OpenSession(model_, 100, 1, &cancel);
  ASSERT_NE(session, nullptr);
  const auto scores = ScoreMcItems(*session, items_, "x", {});
  ASSERT_FALSE(scores.has_value());
  EXPECT_EQ(scores.error().code, ErrorCode::kCancelled);
}

}  // namespace
}  // namespace thermocline::eval

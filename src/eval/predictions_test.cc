#include "eval/predictions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "eval/testing.h"

namespace thermocline::eval {
namespace {

using ::testing::HasSubstr;
using text::TokenId;

TEST(CheckChunksTest, NamesWhatIsTooShort) {
  EXPECT_TRUE(CheckChunks(8, 4).has_value());
  EXPECT_THAT(MessageOf(CheckChunks(100, 3)), HasSubstr("too short"));
  EXPECT_THAT(MessageOf(CheckChunks(7, 4)),
              HasSubstr("the text has 7 tokens, but at least two chunks of 4"));
}

TEST(PredictionBytesTest, OfTheRowsThatAreHeldAtOnce) {
  EXPECT_EQ(PredictionBytes(320, 16), 16u * 320 * 4);
  EXPECT_EQ(PredictionBytes(320, 4096), 128u * 320 * 4);
}

class ForEachPredictionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    model_ = OpenModel("golden/llama-gqa-f16.gguf");
    ASSERT_NE(model_, nullptr);
    session_ = OpenSession(model_, 32);
    other_ = OpenSession(model_, 32);
    ASSERT_TRUE(session_ != nullptr && other_ != nullptr);
  }

  Status Visit(std::span<const TokenId> tokens, const Chunks& chunks,
               const PredictionFn& visit) {
    const std::array<engine::Session*, 2> sessions = {session_.get(),
                                                      other_.get()};
    return ForEachPrediction(sessions, tokens, chunks, {}, visit);
  }

  std::shared_ptr<const model::Model> model_;
  std::unique_ptr<engine::Session> session_, other_;
};

// At every counted position each session's row, and what the text says next.
TEST_F(ForEachPredictionTest, GivesTheSecondHalfOfEveryChunk) {
  const size_t vocab_size = model_->config().vocab_size;
  const auto tokens = RandomTokens(29, model_->config().vocab_size);
  std::vector<TokenId> targets;
  std::vector<float> rows;
  ASSERT_TRUE(Visit(tokens, {9}, [&](auto logits, TokenId target) -> Status {
                EXPECT_EQ(logits.size(), 2u);
                EXPECT_EQ(std::memcmp(logits[0].data(), logits[1].data(),
                                      vocab_size * sizeof(float)),
                          0);
                rows.insert(rows.end(), logits[0].begin(), logits[0].end());
                targets.push_back(target);
                return {};
              }).has_value());
  // Chunks of 9 count positions 4 to 7; 29 tokens make three.
  std::vector<TokenId> want;
  for (size_t chunk = 0; chunk < 3; ++chunk) {
    for (size_t p = 5; p < 9; ++p) want.push_back(tokens[9 * chunk + p]);
  }
  EXPECT_EQ(targets, want);
  EXPECT_EQ(session_->position(), 0);
  EXPECT_EQ(other_->position(), 0);

  std::vector<TokenId> second(tokens.begin() + 9, tokens.begin() + 18);
  second.front() = model_->tokenizer()->vocab().bos.value();
  std::vector<float> logits(9 * vocab_size);
  ASSERT_TRUE(session_->Prompt(second, engine::LogitsOf::kAll, logits));
  EXPECT_EQ(
      std::memcmp(rows.data() + 4 * vocab_size, logits.data() + 4 * vocab_size,
                  4 * vocab_size * sizeof(float)),
      0);
}

TEST_F(ForEachPredictionTest, StopsBehindTheChunksAskedFor) {
  const auto tokens = RandomTokens(29, model_->config().vocab_size);
  for (const auto& [max_count, num_chunks] :
       {std::pair(1, 1), std::pair(2, 2), std::pair(9, 3)}) {
    const Chunks chunks = {.size = 9, .max_count = max_count};
    EXPECT_EQ(chunks.CountIn(tokens), num_chunks);
    std::vector<TokenId> targets;
    ASSERT_TRUE(Visit(tokens, chunks, [&](auto, TokenId target) -> Status {
      targets.push_back(target);
      return {};
    }));
    ASSERT_EQ(targets.size(), 4u * static_cast<size_t>(num_chunks));
    EXPECT_EQ(targets.front(), tokens[5]);
  }
}

TEST_F(ForEachPredictionTest, ErrorsNameTheChunk) {
  const auto tokens = RandomTokens(16, model_->config().vocab_size);
  int num_calls = 0;
  const Status status = Visit(tokens, {8}, [&](auto, TokenId) -> Status {
    if (++num_calls <= 3) return {};
    return Fail(ErrorCode::kCorrupt, "bad luck");
  });
  EXPECT_EQ(MessageOf(status), "chunk 2: bad luck");
  EXPECT_EQ(num_calls, 4);
}

TEST_F(ForEachPredictionTest, RefusesBeforeAnyWork) {
  auto tokens = RandomTokens(80, model_->config().vocab_size);
  const auto refuse = [](auto, TokenId) -> Status {
    ADD_FAILURE() << "called";
    return {};
  };
  EXPECT_THAT(MessageOf(Visit(tokens, {33}, refuse)),
              HasSubstr("chunks of 33 tokens do not fit"));
  EXPECT_THAT(MessageOf(Visit(std::span(tokens).first(15), {8}, refuse)),
              HasSubstr("15 tokens"));
  tokens[70] = -1;
  EXPECT_THAT(MessageOf(Visit(tokens, {8}, refuse)),
              HasSubstr("token id -1 is outside the vocabulary of 320"));
}

}  // namespace
}  // namespace thermocline::eval

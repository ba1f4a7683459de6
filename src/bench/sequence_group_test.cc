#include "bench/sequence_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/session.h"

namespace thermocline::bench {
namespace {

using ::testing::HasSubstr;

// Prompts of 3 and of 11, which is more than are computed together.
const std::vector<text::TokenId> kShort = {1, 40, 50};
const std::vector<text::TokenId> kLong = {1,   60,  70,  80,  90, 100,
                                          110, 120, 130, 140, 150};

TEST(CheckAsAloneTest, NamesTheFirstThatIsWrong) {
  const std::vector<uint64_t> alone = {7, 8, 9};
  EXPECT_TRUE(CheckAsAlone(alone, alone).has_value());
  EXPECT_TRUE(CheckAsAlone(alone, std::span(alone).first(2)).has_value());
  const Status status = CheckAsAlone(alone, std::vector<uint64_t>{7, 1, 1});
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(status.error().message, HasSubstr("sequence 2 of 3 gave other"));
}

class SequenceGroupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto model = model::Model::Open(std::string(TC_TEST_DATA) +
                                    "/models/stories260K.gguf");
    ASSERT_TRUE(model.has_value()) << model.error().message;
    model_ = *model;
    options_.context = 20;
    options_.num_sequences = 3;
    options_.batch = 8;
    options_.num_threads = 2;
    auto group = SequenceGroup::Create(model_, options_, &progress_);
    ASSERT_TRUE(group.has_value()) << group.error().message;
    group_ = *std::move(group);
  }

  // What a session goes on with behind the prompt.
  std::vector<text::TokenId> Continuation(std::vector<text::TokenId> prompt,
                                          size_t count) {
    const auto session = engine::Session::Create(model_, options_);
    EXPECT_TRUE(session.has_value()) << session.error().message;
    std::vector<float> logits(model_->config().vocab_size);
    const GreedyChoice choice(*model_);
    EXPECT_TRUE((*session)->Prompt(prompt, engine::LogitsOf::kLast, logits));
    std::vector<text::TokenId> tokens = {choice.Choose(logits)};
    while (tokens.size() < count) {
      EXPECT_TRUE((*session)->Generate(std::span(tokens).last(1),
                                       engine::LogitsOf::kLast, logits));
      tokens.push_back(choice.Choose(logits));
    }
    return tokens;
  }

  std::shared_ptr<const model::Model> model_;
  engine::SessionOptions options_;
  ProgressFn no_progress_;
  TokenProgress progress_{no_progress_, 1000};
  std::unique_ptr<SequenceGroup> group_;
};

TEST_F(SequenceGroupTest, GoesOnAsEachWouldAlone) {
  ASSERT_TRUE(group_->Start({{kShort, {}}, {kLong, {}}}, 6).has_value());
  EXPECT_EQ(group_->stories()[0].generated, Continuation(kShort, 6));
  EXPECT_EQ(group_->stories()[1].generated, Continuation(kLong, 6));
  for (const size_t count : {2u, 1u, 2u}) {
    const auto seconds = group_->Generate(count);
    ASSERT_TRUE(seconds.has_value()) << seconds.error().message;
    EXPECT_GT(*seconds, 0.0);
  }
}

TEST_F(SequenceGroupTest, StartsAgainWithOtherStories) {
  ASSERT_TRUE(group_->Start({{kLong, {}}}, 9).has_value());
  ASSERT_TRUE(group_->Generate(1).has_value());
  // Without a prompt the first pass is at position 0.
  ASSERT_TRUE(
      group_->Start({{kShort, {5, 6}}, {{}, {7, 8}}, {kShort, {5, 6}}}, 2)
          .has_value());
  EXPECT_EQ(group_->stories()[1].generated, (std::vector<text::TokenId>{7, 8}));
  const auto seconds = group_->Generate(3);
  EXPECT_TRUE(seconds.has_value()) << seconds.error().message;
}

TEST_F(SequenceGroupTest, StopsWhenCancelled) {
  const std::atomic<bool> cancel = true;
  options_.cancel = &cancel;
  const auto group = SequenceGroup::Create(model_, options_, &progress_);
  ASSERT_TRUE(group.has_value());
  const Status status = (*group)->Start({{kShort, {}}}, 2);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kCancelled);
}

}  // namespace
}  // namespace thermocline::bench

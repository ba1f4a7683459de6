#include "eval/logits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "eval/testing.h"

namespace thermocline::eval {
namespace {

const std::vector<text::TokenId> kTokens = {1, 15, 7, 300, 42, 7, 0};

std::unique_ptr<engine::Session> OpenGolden(int64_t context) {
  auto model = OpenModel("golden/llama-gqa-f16.gguf");
  return model == nullptr ? nullptr : OpenSession(std::move(model), context);
}

// The bytes that WriteLogits gives.
Result<std::vector<std::byte>> Collect(engine::Session& session,
                                       std::span<const text::TokenId> tokens,
                                       bool one_by_one) {
  std::vector<std::byte> all;
  TC_RETURN_IF_ERROR(WriteLogits(
      session, tokens, one_by_one, [&](std::span<const std::byte> bytes) {
        all.insert(all.end(), bytes.begin(), bytes.end());
        return Status();
      }));
  return all;
}

TEST(WriteLogitsTest, GivesEveryPositionInOrder) {
  const auto session = OpenGolden(64);
  ASSERT_NE(session, nullptr);
  const size_t vocab_size = session->model().config().vocab_size;
  const auto bytes = Collect(*session, kTokens, /*one_by_one=*/false);
  ASSERT_TRUE(bytes.has_value()) << bytes.error().message;
  ASSERT_EQ(bytes->size(), kTokens.size() * vocab_size * sizeof(float));

  // The last row is what decoding all of them gives as the last logits.
  session->Truncate(0);
  std::vector<float> last(vocab_size);
  ASSERT_TRUE(
      session->Prompt(kTokens, engine::LogitsOf::kLast, last).has_value());
  EXPECT_EQ(
      std::memcmp(bytes->data() + bytes->size() - vocab_size * sizeof(float),
                  last.data(), vocab_size * sizeof(float)),
      0);
}

TEST(WriteLogitsTest, OneByOneAreGeneratedRows) {
  const auto session = OpenGolden(64);
  ASSERT_NE(session, nullptr);
  const auto single = Collect(*session, kTokens, /*one_by_one=*/true);
  ASSERT_TRUE(single.has_value());
  session->Truncate(0);
  std::vector<float> rows(single->size() / sizeof(float));
  ASSERT_TRUE(session->Generate(kTokens, engine::LogitsOf::kAll, rows));
  EXPECT_EQ(std::memcmp(single->data(), rows.data(), single->size()), 0);
}

TEST(WriteLogitsTest, RefusesBeforeAnyWork) {
  const auto session = OpenGolden(4);
  ASSERT_NE(session, nullptr);
  const auto none = Collect(*session, {}, false);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, ErrorCode::kInvalidArgument);
  for (const bool one_by_one : {false, true}) {
    const auto too_many = Collect(*session, kTokens, one_by_one);
    ASSERT_FALSE(too_many.has_value());
    EXPECT_EQ(too_many.error().code, ErrorCode::kResourceExhausted);
    EXPECT_THAT(too_many.error().message,
                ::testing::HasSubstr("no room for 7 tokens in the context"));
    EXPECT_EQ(session->position(), 0);
  }
}

TEST(WriteLogitsTest, StopsAtAFailingWriter) {
  const auto session = OpenGolden(64);
  ASSERT_NE(session, nullptr);
  int num_calls = 0;
  const Status status = WriteLogits(*session, kTokens, /*one_by_one=*/true,
                                    [&](std::span<const std::byte>) -> Status {
                                      ++num_calls;
                                      return Fail(ErrorCode::kIo, "disk full");
                                    });
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().message, "disk full");
  EXPECT_EQ(num_calls, 1);
}

TEST(WriteLogitsTest, NamesAWrongToken) {
  const auto session = OpenGolden(64);
  ASSERT_NE(session, nullptr);
  const std::vector<text::TokenId> tokens = {1, 9999};
  const auto bytes = Collect(*session, tokens, false);
  ASSERT_FALSE(bytes.has_value());
  EXPECT_THAT(bytes.error().message, ::testing::HasSubstr("9999"));
}

using Sequences = std::vector<std::vector<text::TokenId>>;

Result<std::unique_ptr<engine::Runtime>> OpenTogether(int64_t context,
                                                      int64_t num_sequences,
                                                      int64_t batch = 512) {
  return engine::Runtime::Create(OpenModel("golden/llama-gqa-Q4_0.gguf"),
                                 {.context = context,
                                  .num_threads = 2,
                                  .batch = batch,
                                  .num_sequences = num_sequences});
}

Result<std::vector<std::byte>> CollectTogether(const Sequences& sequences,
                                               bool one_by_one, int64_t batch) {
  TC_ASSIGN_OR_RETURN(
      const auto runtime,
      OpenTogether(100, static_cast<int64_t>(sequences.size()), batch));
  std::vector<std::byte> all;
  TC_RETURN_IF_ERROR(WriteLogitsTogether(
      *runtime, sequences, one_by_one, [&](std::span<const std::byte> bytes) {
        all.insert(all.end(), bytes.begin(), bytes.end());
        return Status();
      }));
  return all;
}

// Whatever the cut: passes that end inside a sequence, more sequences than
// rows.
TEST(WriteLogitsTogetherTest, HasTheBitsOfEachAlone) {
  Sequences sequences = {kTokens, {5}, kTokens, {1, 2, 3}};
  for (int i = 0; i < 70; ++i) sequences[2].push_back(3 * i);
  for (const bool one_by_one : {false, true}) {
    std::vector<std::byte> alone;
    for (const auto& sequence : sequences) {
      const auto one = CollectTogether({sequence}, one_by_one, 512);
      ASSERT_TRUE(one.has_value()) << one.error().message;
      alone.insert(alone.end(), one->begin(), one->end());
    }
    for (const int64_t batch : {1, 3, 9, 512}) {
      const auto together = CollectTogether(sequences, one_by_one, batch);
      ASSERT_TRUE(together.has_value()) << together.error().message;
      EXPECT_TRUE(*together == alone) << batch << one_by_one;
    }
  }
}

TEST(WriteLogitsTogetherTest, RefusesBeforeAnyWork) {
  const auto runtime = OpenTogether(64, 2);
  ASSERT_TRUE(runtime.has_value()) << runtime.error().message;
  const struct {
    Sequences sequences;
    const char* message;
  } cases[] = {
      {{}, "no sequences"},
      {{{1}, {}}, "sequence 2 has no tokens"},
      {{std::vector<text::TokenId>(65)}, "65 tokens, more than the context"},
      {{{1}, {2}, {3}},
       "3 sequences need 3 pages of the KV cache, which has 2"},
  };
  for (const auto& c : cases) {
    const Status status =
        WriteLogitsTogether(**runtime, c.sequences, false,
                            [](std::span<const std::byte>) -> Status {
                              ADD_FAILURE();
                              return {};
                            });
    ASSERT_FALSE(status.has_value()) << c.message;
    EXPECT_THAT(status.error().message, ::testing::HasSubstr(c.message));
  }
}

}  // namespace
}  // namespace thermocline::eval

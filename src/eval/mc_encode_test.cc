#include "eval/mc_encode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/remedy.h"
#include "eval/testing.h"

namespace thermocline::eval {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Byte-level BPE with few merges: "ab", "b c".
std::unique_ptr<const text::Tokenizer> SmallTokenizer(bool add_bos,
                                                      bool add_eos) {
  text::Vocab vocab;
  vocab.kind = text::VocabKind::kBpe;
  vocab.pre = "gpt-2";
  //               0    1    2    3    4     5          6
  vocab.tokens = {"a", "b", "c", "Ġ", "ab", "Ġc", "<s>"};
  vocab.merges = {"a b", "Ġ c"};
  vocab.types.assign(7, text::TokenType::kNormal);
  vocab.types[6] = text::TokenType::kControl;
  vocab.bos = vocab.eos = 6;
  vocab.add_bos = add_bos;
  vocab.add_eos = add_eos;
  auto tokenizer = text::Tokenizer::Create(std::move(vocab));
  if (tokenizer.has_value()) return *std::move(tokenizer);
  ADD_FAILURE() << tokenizer.error().message;
  return nullptr;
}

McTask OneItem(McItem item) {
  item.line = 7;
  return {.path = "t.jsonl", .schema = "s", .items = {std::move(item)}};
}

TEST(EncodeMcTaskTest, ContextsAndContinuations) {
  const McTask task =
      OneItem({.contexts = {"b"}, .continuations = {" c", " cab"}});
  for (const bool add_eos : {false, true}) {
    const auto tokenizer = SmallTokenizer(/*add_bos=*/true, add_eos);
    ASSERT_NE(tokenizer, nullptr);
    const auto items = EncodeMcTask(*tokenizer, task, {});
    ASSERT_TRUE(items.has_value()) << items.error().message;
    ASSERT_EQ(items->size(), 1u);
    EXPECT_THAT(items->front().contexts, ElementsAre(ElementsAre(6, 1)));
    EXPECT_THAT(items->front().continuations,
                ElementsAre(ElementsAre(5), ElementsAre(5, 4)));
    EXPECT_EQ(items->front().num_positions(), 3);
  }
}

TEST(EncodeMcTaskTest, ExamplesStandInFrontOfEachContext) {
  const auto tokenizer = SmallTokenizer(false, false);
  ASSERT_NE(tokenizer, nullptr);
  const auto items = EncodeMcTask(
      *tokenizer,
      OneItem({.contexts = {"b", "a"}, .continuations = {" c", " cc"}}),
      {.examples = "ab "});
  ASSERT_TRUE(items.has_value()) << items.error().message;
  EXPECT_THAT(items->front().contexts,
              ElementsAre(ElementsAre(4, 3, 1), ElementsAre(4, 3, 0)));
  EXPECT_THAT(items->front().context(1), ElementsAre(4, 3, 0));
  EXPECT_EQ(items->front().num_positions(), 4);
}

// Where a token spans the border, the context's own tokens are the context,
// and the continuation is what the whole has behind as many.
TEST(EncodeMcTaskTest, ATokenOverTheBorder) {
  const auto tokenizer = SmallTokenizer(false, false);
  ASSERT_NE(tokenizer, nullptr);
  const auto items = EncodeMcTask(
      *tokenizer, OneItem({.contexts = {"a"}, .continuations = {"bc", "b"}}),
      {});
  EXPECT_EQ(MessageOf(items),
            "t.jsonl: line 7: choice 1 adds no token to its context: this "
            "vocabulary joins the two");
  const auto good = EncodeMcTask(
      *tokenizer, OneItem({.contexts = {"a"}, .continuations = {"bc", "bcc"}}),
      {});
  ASSERT_TRUE(good.has_value()) << good.error().message;
  EXPECT_THAT(good->front().contexts, ElementsAre(ElementsAre(0)));
  EXPECT_THAT(good->front().continuations,
              ElementsAre(ElementsAre(2), ElementsAre(2, 2)));
}

TEST(EncodeMcTaskTest, AContextWithoutTokens) {
  const auto tokenizer = SmallTokenizer(false, false);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_THAT(
      MessageOf(EncodeMcTask(
          *tokenizer, OneItem({.contexts = {""}, .continuations = {"a", "b"}}),
          {})),
      HasSubstr("t.jsonl: line 7: the context has no tokens"));
}

// No item behind it is looked at.
TEST(EncodeMcTaskTest, RefusesTheFirstItemThatIsTooLong) {
  const auto tokenizer = SmallTokenizer(/*add_bos=*/true, false);
  ASSERT_NE(tokenizer, nullptr);
  const McTask task = {
      .path = "t.jsonl",
      .schema = "s",
      .items = {{.line = 1, .contexts = {"b"}, .continuations = {"c", "ca"}},
                {.line = 3, .contexts = {"b"}, .continuations = {"c", "cac"}},
                {.line = 4, .contexts = {""}, .continuations = {"c", "c"}}}};
  const auto items = EncodeMcTask(*tokenizer, task, {.max_positions = 3});
  ASSERT_FALSE(items.has_value());
  EXPECT_EQ(items.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(items.error().message,
            "t.jsonl: line 3: needs 4 positions, the context has 3");
  EXPECT_EQ(items.error().advice.remedy, Remedy::kContext);
  EXPECT_EQ(items.error().advice.value, 4);
  const auto with_examples =
      EncodeMcTask(*tokenizer, task, {.examples = "b", .max_positions = 3});
  ASSERT_FALSE(with_examples.has_value());
  EXPECT_THAT(with_examples.error().message,
              HasSubstr("line 1: needs 4 positions, the context has 3"));
  EXPECT_EQ(with_examples.error().advice.remedy, Remedy::kContextOrShots);
}

TEST(EncodeMcTaskTest, ReportsProgressAndStopsWhenCancelled) {
  const auto tokenizer = SmallTokenizer(false, false);
  ASSERT_NE(tokenizer, nullptr);
  McTask task = OneItem({.contexts = {"b"}, .continuations = {"c", "a"}});
  task.items.resize(5, task.items.front());
  std::atomic<bool> cancel = false;
  std::vector<uint64_t> done;
  const auto progress = [&](std::string_view, uint64_t num_done,
                            uint64_t num_total) {
    EXPECT_EQ(num_total, 5u);
    done.push_back(num_done);
    if (num_done == 2) cancel = true;
  };
  const auto items =
      EncodeMcTask(*tokenizer, task, {.cancel = &cancel, .progress = progress});
  ASSERT_FALSE(items.has_value());
  EXPECT_EQ(items.error().code, ErrorCode::kCancelled);
  EXPECT_THAT(done, ElementsAre(0, 1, 2));
}

// Text of a task never becomes a control token.
TEST(EncodeMcTaskTest, SpecialTokensAreText) {
  const auto model = OpenModel("models/stories260K.gguf");
  ASSERT_NE(model, nullptr);
  const auto items = EncodeMcTask(
      *model->tokenizer(),
      OneItem({.contexts = {"a </s>"}, .continuations = {" </s>", " b"}}), {});
  ASSERT_TRUE(items.has_value()) << items.error().message;
  EXPECT_EQ(items->front().contexts[0].front(), 1);  // BOS
  EXPECT_GT(items->front().contexts[0].size(), 4u);
  EXPECT_GT(items->front().continuations[0].size(), 2u);
}

}  // namespace
}  // namespace thermocline::eval

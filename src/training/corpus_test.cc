#include "training/corpus.h"

#include <atomic>

#include "model/test_log.h"
#include "training/testing.h"

namespace thermocline::training {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(CorpusTest, ChunksAtEvenDistances) {
  const auto model = OpenDemo();
  const std::string text = ReadTestFile("testdata/demo/valid.txt");
  const auto all = Corpus::Create(*model, text, "text",
                                  {.chunk = 100, .max_tokens = 1u << 30});
  ASSERT_TRUE(all);
  const auto few =
      Corpus::Create(*model, text, "text", {.chunk = 100, .max_tokens = 2000});
  ASSERT_TRUE(few);
  EXPECT_EQ(few->num_chunks(), 20u);
  EXPECT_EQ(few->num_tokens(), 2000u);
  EXPECT_EQ(few->num_held_out_tokens(), 200u);
  for (size_t i = 0; i < 20; ++i) {
    const auto want = all->chunk(i * all->num_chunks() / 20);
    EXPECT_TRUE(std::ranges::equal(few->chunk(i), want)) << i;
  }
  EXPECT_TRUE(Corpus::IsHeldOut(7));
  EXPECT_FALSE(Corpus::IsHeldOut(8));
  EXPECT_EQ(Corpus::RankOf(7), 0u);
  EXPECT_EQ(Corpus::RankOf(8), 7u);
  EXPECT_EQ(Corpus::RankOf(15), 1u);
}

// Each chunk is a piece of the text from behind the end of a line on.
TEST(CorpusTest, OfALongTextOnlyWhatIsUsedBecomesTokens) {
  const auto model = OpenDemo();
  std::string text;
  while (text.size() < 3000000) text += ReadTestFile("testdata/demo/valid.txt");
  const auto corpus = Corpus::Create(
      *model, text, "text",
      {.chunk = 50, .max_tokens = 2000, .max_whole_bytes = 1000000});
  ASSERT_TRUE(corpus) << corpus.error().message;
  ASSERT_EQ(corpus->num_chunks(), 40u);
  size_t last = 0;
  for (size_t i = 0; i < 40; ++i) {
    auto chunk = corpus->chunk(i);
    if (model->tokenizer()->vocab().add_bos) chunk = chunk.subspan(1);
    // But for the last token, which a cut may change.
    const std::string shown = model->tokenizer()->Decode(chunk.first(40), true);
    const size_t at = text.find(shown, i * (text.size() / 40));
    ASSERT_NE(at, std::string::npos) << shown;
    EXPECT_LT(at, (i + 1) * (text.size() / 40));
    EXPECT_GE(at, last);
    last = at;
  }
  // As a whole where that is what was asked for.
  const auto whole = Corpus::Create(
      *model, text, "text",
      {.chunk = 50, .max_tokens = 1u << 20, .max_whole_bytes = 1000000});
  ASSERT_TRUE(whole);
  EXPECT_GT(whole->num_tokens(), 500000u);
}

// One word without an end: stretches cannot be cut at words or lines.
TEST(CorpusTest, LongTextsWithoutLinesOrWords) {
  const auto model = OpenDemo();
  const CorpusOptions options = {
      .chunk = 16, .max_tokens = 256, .max_whole_bytes = 1000};
  const auto corpus =
      Corpus::Create(*model, std::string(200000, 'a'), "text", options);
  ASSERT_TRUE(corpus) << corpus.error().message;
  EXPECT_EQ(corpus->num_chunks(), 16u);
}

TEST(CorpusTest, TooShortATextIsToldWithBothNumbers) {
  const auto model = OpenDemo();
  const auto corpus =
      Corpus::Create(*model, "Once upon a time.", "story.txt", {.chunk = 64});
  ASSERT_FALSE(corpus);
  EXPECT_EQ(corpus.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(corpus.error().message,
              AllOf(HasSubstr("story.txt"), HasSubstr("1024"),
                    HasSubstr("16 chunks of 64")));
}

TEST(CorpusTest, AsFewTokensAsNoTextIsLearntFromAreRefused) {
  const auto model = OpenDemo();
  const std::string text = ReadTestFile("testdata/demo/valid.txt");
  const auto corpus =
      Corpus::Create(*model, text, "text", {.chunk = 64, .max_tokens = 1023});
  ASSERT_FALSE(corpus);
  EXPECT_THAT(corpus.error().message,
              AllOf(HasSubstr("to read: 1023 tokens"), HasSubstr("1024")));
  EXPECT_TRUE(
      Corpus::Create(*model, text, "text", {.chunk = 64, .max_tokens = 1024}));
}

// Long chunks are no mistake of who did not say how many tokens to read.
TEST(CorpusTest, TheDefaultIsEnoughForTheLeastNumberOfChunks) {
  const auto model = OpenDemo();
  const std::string text = ReadTestFile("testdata/demo/valid.txt");
  const auto corpus = Corpus::Create(*model, text, "text",
                                     {.chunk = 64, .default_max_tokens = 1000});
  ASSERT_TRUE(corpus) << corpus.error().message;
  EXPECT_EQ(corpus->num_chunks(), kMinChunks);
  const auto more = Corpus::Create(*model, text, "text",
                                   {.chunk = 64, .default_max_tokens = 2000});
  ASSERT_TRUE(more) << more.error().message;
  EXPECT_EQ(more->num_chunks(), 31u);
  // It is the text that is too short, and the message says so.
  const auto none = Corpus::Create(*model, text.substr(0, 1000), "text",
                                   {.chunk = 64, .default_max_tokens = 1000});
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("text: "));
}

TEST(CorpusTest, ChunksAreNoLongerThanTheModelsContext) {
  const auto model = OpenDemo();
  const std::string text = ReadTestFile("testdata/demo/valid.txt");
  const model::TestLog log;
  for (const std::optional<int64_t> chunk : {std::optional<int64_t>(), {0}}) {
    const auto corpus = Corpus::Create(*model, text, "text", {.chunk = chunk});
    ASSERT_TRUE(corpus);
    EXPECT_EQ(corpus->chunk_tokens(), 256u);
  }
  EXPECT_THAT(log.lines(), IsEmpty());
  const auto corpus = Corpus::Create(*model, text, "text", {.chunk = 100000});
  ASSERT_TRUE(corpus);
  EXPECT_EQ(corpus->chunk_tokens(), 256u);
  EXPECT_THAT(log.lines(),
              ElementsAre(HasSubstr("256 tokens instead of 100000")));
}

TEST(CorpusTest, ARunSeesEveryTokenInEveryLayer) {
  const auto model = OpenDemo();
  const Corpus corpus = SmallCorpus(*model, 8);
  std::vector<size_t> num_seen(6);
  size_t num_chunks = 0;
  const Status status = RunCorpus(
      model, corpus, {.num_threads = 2, .ffn = engine::FfnMode::kDense},
      "reading", {},
      [&](size_t chunk_idx, const engine::FfnObservation& seen) {
        EXPECT_EQ(chunk_idx, num_chunks);
        EXPECT_EQ(seen.input.size(), 256u);
        ++num_seen[seen.layer_idx];
      },
      [&](size_t chunk_idx) -> Status {
        EXPECT_EQ(chunk_idx, num_chunks++);
        return {};
      });
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(num_chunks, 16u);
  EXPECT_THAT(num_seen, ::testing::Each(16u * 8));
}

TEST(CorpusTest, ErrorsOfTheRun) {
  const auto model = OpenDemo();
  const Corpus corpus = SmallCorpus(*model, 8);
  const auto nothing = [](size_t, const engine::FfnObservation&) {};
  const Status stopped = RunCorpus(
      model, corpus, {.num_threads = 1}, "reading", {}, nothing,
      [](size_t) -> Status { return Fail(ErrorCode::kUnsupported, "enough"); });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().message, "enough");
  const std::atomic<bool> cancel = true;
  const Status cancelled =
      RunCorpus(model, corpus, {.num_threads = 1, .cancel = &cancel}, "reading",
                {}, nothing);
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code, ErrorCode::kCancelled);
}

}  // namespace
}  // namespace thermocline::training

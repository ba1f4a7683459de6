#include "cli/open_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "cli/remedies.h"
#include "cli/test_files.h"
#include "cli/test_main.h"
#include "model/test_model.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;

TEST(OpenModelTest, RefusesWhatIsHeldWithItsSessionBeforeReading) {
  ProgressLine progress;
  SessionFlags session;
  session.context = int64_t{1} << 33;
  ModelFlags flags = {.path = kLlamaF16};
  EXPECT_TRUE(OpenModel(flags, progress, &session).has_value());
  flags.hold.read = true;
  const auto refused = OpenModel(flags, progress, &session);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(Explain(refused.error()), HasSubstr("--no-mmap"));
  const auto model = OpenModel(flags, progress);
  ASSERT_TRUE(model.has_value()) << model.error().message;
  EXPECT_THAT(
      Explain(CreateSession(*model, {.context = *session.context}).error()),
      HasSubstr("--no-mmap"));
}

// Of sessions that a command makes the largest has room.
TEST(OpenModelTest, LeavesRoomForTheLargestSession) {
  ProgressLine progress;
  SessionFlags session;
  const ModelFlags flags = {.path = kStories};
  session.num_threads = 1;
  session.context = 256;
  session.ram = 10;
  const auto refused = OpenModel(flags, progress, &session);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("at least"));
  const engine::SessionOptions larger = {
      .context = 256, .num_threads = 1, .num_sequences = 8};
  const auto sessions_of = [&](const model::Config&,
                               const engine::SessionOptions& from_flags) {
    engine::SessionOptions several = larger;
    several.budget = from_flags.budget;
    return ModelSessions{{from_flags, several}};
  };
  const auto mapped = OpenModel(flags, progress).value();
  const uint64_t whole = engine::PlanMemory(mapped->config(), larger,
                                            engine::WeightMemory::Of(*mapped))
                             ->host.total();
  session.ram = whole - 1;
  EXPECT_FALSE(OpenModel(flags, progress, &session).value()->is_partly_left());
  const auto model = OpenModel(flags, progress, &session, sessions_of).value();
  EXPECT_TRUE(model->is_partly_left());
  engine::SessionOptions options = larger;
  options.budget.ram = session.ram;
  const auto made = CreateSession(model, options);
  EXPECT_TRUE(made) << made.error().message;

  // To the byte: the file's metadata is no weight.
  options.budget.ram = 0;
  session.ram = engine::PlanRuntime(*model, options)->memory.host.total();
  const auto exact = OpenModel(flags, progress, &session, sessions_of);
  ASSERT_TRUE(exact) << exact.error().message;
  options.budget.ram = session.ram;
  EXPECT_TRUE(CreateSession(*exact, options));
}

TEST(OpenVocabularyTest, OfAModelAndOfAVocabularyAlone) {
  for (const std::string& path :
       {kStories, InTestData("tokenizers/ggml-vocab-gpt-2.gguf")}) {
    const auto opened = OpenVocabulary(path);
    ASSERT_TRUE(opened.has_value()) << opened.error().message;
    EXPECT_GT(opened->tokenizer->num_tokens(), 256);
    EXPECT_EQ(opened->file->path(), path);
  }
}

TEST(OpenVocabularyTest, NoneIsAnErrorThatNamesTheFile) {
  const std::string path = TempPath("no_vocabulary.gguf");
  gguf::TestFile file = model::TestModel();
  file.Remove("tokenizer.ggml.model");
  std::ofstream(path, std::ios::binary) << file.Bytes();
  const auto none = OpenVocabulary(path);
  std::remove(path.c_str());
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(none.error().message, HasSubstr("no_vocabulary.gguf"));
  EXPECT_FALSE(OpenVocabulary(path).has_value());  // no such file
}

}  // namespace
}  // namespace thermocline::cli

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "cli/test_files.h"
#include "cli/test_main.h"
#include "os/test_folder.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;

TEST(TrainCommandTest, UsageErrors) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{kDemoModel}, "--corpus is required"},
      {{"--corpus", kValidText}, "the model is missing"},
      {{kDemoModel, "-m", kDemoModel, "--corpus", kValidText},
       "the model is given twice"},
      {{kDemoModel, "--corpus", kValidText, "--lookahead", "2"},
       "--lookahead: 2 is out of range"},
      {{kDemoModel, "--corpus", kValidText, "-c", "1"},
       "chunks of 1 are too short, at least 4"}};
  for (auto [args, part] : cases) {
    args.insert(args.begin(), {"train", "-o", "x"});
    const MainResult result = RunMain(args);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr(part));
  }
}

TEST(TrainCommandTest, RefusesToReplaceWhatItReads) {
  os::TestFolder folder;
  const std::string split = folder.Write("own.gpuidx", "split");
  for (const std::string& input : {kDemoModel, kValidText, split}) {
    const MainResult result =
        RunMain({"train", kDemoModel, "--corpus", kValidText, "--split", split,
                 "-o", input});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr(input + ": is one of the files to read"));
  }
}

TEST(TrainCommandTest, ATextThatIsTooShort) {
  os::TestFolder folder;
  const std::string text = folder.Write("story.txt", "Once upon a time.");
  const MainResult result = RunMain(
      {"train", kDemoModel, "--corpus", text, "-o", folder / "out.gguf"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("too few to learn from"));
}

// Before anything is read: that text is not there.
TEST(TrainCommandTest, AnOutputThatCannotBeWritten) {
  os::TestFolder folder;
  for (const std::string& output : {folder.path(), folder / "absent/out"}) {
    const MainResult result = RunMain(
        {"train", kDemoModel, "--corpus", folder / "none", "-o", output});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr(output));
  }
  EXPECT_EQ(folder.num_entries(), 0);
}

}  // namespace
}  // namespace thermocline::cli

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/test_files.h"
#include "cli/test_main.h"
#include "os/test_folder.h"

namespace thermocline::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ProfileCommandTest : public ::testing::Test {
 protected:
  MainResult Run(std::vector<std::string> more) {
    std::vector<std::string> args = {"profile", kBamboo, "--corpus", text_,
                                     "-t",      "1",     "-c",       "32"};
    args.insert(args.end(), more.begin(), more.end());
    return RunMain(args);
  }

  os::TestFolder folder_;
  std::string text_ = folder_.Write(
      "text.txt", os::TestFolder::Read(kValidText).substr(0, 4000));
};

TEST_F(ProfileCommandTest, WritesShowsAndDraws) {
  const std::string output = folder_ / "m.profile";
  const std::string page = folder_ / "m.html";
  const MainResult made = Run({"-o", output, "--html", page});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("tokens of text.txt, 32 at a time\n"));
  EXPECT_THAT(made.err, HasSubstr("wrote " + output));
  EXPECT_THAT(os::TestFolder::Read(page), StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(os::TestFolder::Read(output), StartsWith("GGUF"));
  // The file says the same.
  const MainResult shown = RunMain({"profile", output});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_EQ(shown.out, made.out);
  const MainResult json = RunMain({"profile", "-m", output, "--json"});
  const auto parsed = nlohmann::json::parse(json.out);
  EXPECT_EQ(parsed["context"], 32);
  EXPECT_EQ(parsed["layers"].size(), 2u);
}

TEST_F(ProfileCommandTest, LessOfTheText) {
  const MainResult all = Run({"--json"});
  const MainResult part = Run({"--json", "-n", "600"});
  ASSERT_EQ(part.exit_code, 0) << part.err;
  EXPECT_EQ(nlohmann::json::parse(part.out)["tokens"], 576);
  EXPECT_GT(nlohmann::json::parse(all.out)["tokens"], 576);
}

TEST_F(ProfileCommandTest, RefusesOneFileForBothOutputs) {
  const std::string output = folder_ / "both";
  for (int round = 0; round < 2; ++round) {  // the second time it is there
    const MainResult result = Run({"-o", output, "--html", folder_ / "./both"});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr("two outputs have this name"));
    folder_.Write("both", "old");
  }
  EXPECT_EQ(os::TestFolder::Read(output), "old");
}

TEST_F(ProfileCommandTest, RefusesToReplaceTheSplitFile) {
  const std::string split = folder_.Write("own.gpuidx", "split");
  for (const char* flag : {"-o", "--html"}) {
    const MainResult result = Run({"--split", split, flag, split});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr(split + ": is one of the files to read"));
    EXPECT_EQ(os::TestFolder::Read(split), "split");
  }
}

TEST_F(ProfileCommandTest, RefusesFewerTokensThanItNeeds) {
  const MainResult one = Run({"-n", "1"});
  EXPECT_EQ(one.exit_code, 2);
  EXPECT_THAT(one.err, HasSubstr("-n, --max-tokens: 1 is out of range"));
  const MainResult result = Run({"-n", "511"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("511 tokens, too few to learn from; "
                                          "at least 512 are needed"),
                                HasSubstr("use another -n")));
}

// It is there already: nothing is run that these could change.
TEST_F(ProfileCommandTest, RefusesWhatHasNoEffectOnAProfileThatIsShown) {
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{"-c", "32"},
                                             {"-n", "4096"},
                                             {"--isa", "scalar"},
                                             {"--split", "x"},
                                             {"--ffn-act", "relu"},
                                             {"--mlock"}}) {
    std::vector<std::string> args = {"profile", kBamboo};
    args.insert(args.end(), more.begin(), more.end());
    const MainResult result = RunMain(args);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr(more[0]));
    EXPECT_THAT(result.err, HasSubstr("has no effect without --corpus: MODEL "
                                      "is a profile to show"));
  }
}

TEST_F(ProfileCommandTest, SaysWhatIsWrong) {
  const MainResult small =
      RunMain({"profile", kBamboo, "--corpus", "-"}, "a few words");
  EXPECT_EQ(small.exit_code, 1);
  EXPECT_THAT(small.err, HasSubstr("standard input: "));
  EXPECT_THAT(small.err, HasSubstr("too few to learn from"));
  EXPECT_THAT(small.err, HasSubstr("are needed"));

  const MainResult dense = RunMain({"profile", kStories, "--corpus", text_,
                                    "-c", "32", "-o", folder_ / "none"});
  EXPECT_EQ(dense.exit_code, 1);
  EXPECT_THAT(dense.err, HasSubstr("has no sparsity: 100.0 % of the neurons"));
  EXPECT_EQ(os::TestFolder::Read(folder_ / "none"), "");

  const MainResult no_profile = RunMain({"profile", kBamboo});
  EXPECT_EQ(no_profile.exit_code, 1);
  EXPECT_THAT(no_profile.err,
              HasSubstr("holds no profile to show; to make one of a model add "
                        "--corpus"));

  EXPECT_THAT(RunMain({"profile", "absent"}).err, Not(HasSubstr("--corpus")));
  EXPECT_THAT(Run({"-o", text_}).err, HasSubstr("one of the files to read"));
  EXPECT_THAT(Run({"-m", kBamboo}).err, HasSubstr("given twice"));
  const MainResult nothing = RunMain({"profile"});
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_THAT(nothing.err, HasSubstr("the model is missing"));
}

// Before anything is read: that text is not there.
TEST_F(ProfileCommandTest, AnOutputThatCannotBeWritten) {
  for (const char* flag : {"-o", "--html"}) {
    const MainResult result = RunMain({"profile", kBamboo, "--corpus",
                                       folder_ / "none", flag, folder_.path()});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr(folder_.path() + ": is a folder"));
  }
  EXPECT_EQ(folder_.num_entries(), 1);
}

}  // namespace
}  // namespace thermocline::cli

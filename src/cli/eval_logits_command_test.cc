#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "cli/test_files.h"
#include "cli/test_main.h"
#include "os/test_folder.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;

TEST(EvalLogitsCommandTest, WritesAllPositions) {
  const std::string batch = TempPath("batch.f32");
  const std::string single = TempPath("single.f32");
  const MainResult result =
      RunMain({"eval", "logits", "-m", kLlamaF16, "--tokens", "1,15,7", "-o",
               batch, "-t", "1", "--isa", "scalar"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(os::TestFolder::Read(batch).size(), 3u * 320 * sizeof(float));

  const std::string ids = TempPath("ids.txt");
  std::ofstream(ids) << "1 15\n7\n";
  ASSERT_EQ(
      RunMain({"eval", "logits", "-m", kLlamaF16, "--tokens-file", ids, "-o",
               single, "--one-by-one", "-t", "2", "--isa", "scalar"})
          .exit_code,
      0);
  EXPECT_EQ(os::TestFolder::Read(batch), os::TestFolder::Read(single));
  for (const std::string& path : {batch, single, ids}) {
    std::filesystem::remove(path);
  }
}

TEST(EvalLogitsCommandTest, LeavesNothingBehindWhenItFails) {
  const std::string output = TempPath("none.f32");
  std::string long_list = "1";
  for (int i = 0; i < 100000; ++i) long_list += ",1";
  for (const std::string& tokens : {std::string("1,9999"), long_list}) {
    const MainResult result = RunMain(
        {"eval", "logits", "-m", kLlamaF16, "--tokens", tokens, "-o", output});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr("thermocline: error: "));
    EXPECT_FALSE(std::filesystem::exists(output));
  }
}

TEST(EvalLogitsCommandTest, RefusesToReplaceItsInput) {
  const std::string model = TempPath("model-00001-of-00002.gguf");
  const std::string shard = TempPath("model-00002-of-00002.gguf");
  const std::string ids = TempPath("own_ids.txt");
  std::filesystem::copy_file(kLlamaF16, model);
  std::ofstream(shard) << "shard";
  std::ofstream(ids) << "1 2";
  const std::string split = TempPath("own.gpuidx");
  std::ofstream(split) << "split";
  for (const std::string& output : {model, shard, ids, split}) {
    const std::string before = os::TestFolder::Read(output);
    const MainResult result =
        RunMain({"eval", "logits", "-m", model, "--tokens-file", ids, "--split",
                 split, "-o", output});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr("one of the files to read"));
    EXPECT_EQ(os::TestFolder::Read(output), before);
  }
  for (const std::string& path : {model, shard, ids, split}) {
    std::filesystem::remove(path);
  }
}

TEST(EvalLogitsCommandTest, AnErrorSaysWhereTheIdsComeFrom) {
  const std::string ids = TempPath("bad_ids.txt");
  std::ofstream(ids) << "1 320";
  const MainResult file = RunMain({"eval", "logits", "-m", kLlamaF16,
                                   "--tokens-file", ids, "-o", "/dev/null"});
  EXPECT_EQ(file.exit_code, 1);
  EXPECT_THAT(file.err,
              HasSubstr(ids + ": id 320 (number 2) is outside the model's "
                              "vocabulary of 320"));
  for (const char* list : {"1 320", "1 x"}) {
    EXPECT_THAT(RunMain({"eval", "logits", "-m", kLlamaF16, "--tokens-file",
                         "-", "-o", "/dev/null"},
                        list)
                    .err,
                HasSubstr("error: standard input: "));
  }
  const MainResult flag =
      RunMain({"eval", "logits", "-m", kLlamaF16, "--tokens", "1,2,3", "-c",
               "2", "-o", "/dev/null"});
  EXPECT_EQ(flag.exit_code, 1);
  EXPECT_THAT(flag.err, HasSubstr("--tokens: 3 ids are more than the context "
                                  "of 2 positions (-c)"));
  std::filesystem::remove(ids);
}

TEST(EvalLogitsCommandTest, WritesDevicesDirectly) {
  EXPECT_EQ(RunMain({"eval", "logits", "-m", kLlamaF16, "--tokens", "1", "-o",
                     "/dev/null"})
                .exit_code,
            0);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

}  // namespace
}  // namespace thermocline::cli

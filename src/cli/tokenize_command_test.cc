#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "cli/test_files.h"
#include "cli/test_main.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;

const std::string kSpm = InTestData("tokenizers/ggml-vocab-llama-spm.gguf");
const std::string kGpt2 = InTestData("tokenizers/ggml-vocab-gpt-2.gguf");

TEST(TokenizeCommandTest, GivesIdsOfStandardInput) {
  // Llama's own published example of ids.
  EXPECT_EQ(RunMain({"tokenize", "-m", kSpm}, "Hello world").out,
            "1 15043 3186\n");
  EXPECT_EQ(RunMain({"tokenize", "-m", kSpm, "--no-bos"}, "Hello world").out,
            "15043 3186\n");
}

TEST(TokenizeCommandTest, TakesATextOrAFileToo) {
  const std::string path = TempPath("text");
  std::ofstream(path, std::ios::binary) << "Hello world";
  const std::string want = "1 15043 3186\n";
  EXPECT_EQ(RunMain({"tokenize", "-m", kSpm, "-p", "Hello world"}, "x").out,
            want);
  EXPECT_EQ(RunMain({"tokenize", "-m", kSpm, "-f", path}, "x").out, want);
  EXPECT_EQ(RunMain({"tokenize", "-m", kSpm, "-f", "-"}, "Hello world").out,
            want);
  EXPECT_EQ(RunMain({"tokenize", "-m", kSpm, "-p", "15043", "--decode"}).out,
            "Hello");
  EXPECT_EQ(RunMain({"tokenize", "-m", kSpm, "-p", "x", "-f", path}).exit_code,
            2);
  std::remove(path.c_str());
  const MainResult absent = RunMain({"tokenize", "-m", kSpm, "-f", path});
  EXPECT_EQ(absent.exit_code, 1);
  EXPECT_THAT(absent.err, HasSubstr(path));
}

TEST(TokenizeCommandTest, StripsNothing) {
  EXPECT_EQ(RunMain({"tokenize", "-m", kSpm, "--no-bos"}, "Hello\n").out,
            "15043 13\n");
  EXPECT_EQ(RunMain({"tokenize", "-m", kSpm, "--no-bos"}, "").out, "\n");
}

TEST(TokenizeCommandTest, ParsesSpecialTokensWhenAsked) {
  EXPECT_EQ(RunMain({"tokenize", "-m", kGpt2, "--parse-special", "--no-bos"},
                    "<|endoftext|>")
                .out,
            "50256\n");
  EXPECT_NE(RunMain({"tokenize", "-m", kGpt2, "--no-bos"}, "<|endoftext|>").out,
            "50256\n");
}

TEST(TokenizeCommandTest, DecodesBackToTheBytes) {
  const std::string text("caf\xc3\xa9 \xff\0 \n\t x  ", 15);
  for (const std::string& model : {kSpm, kGpt2}) {
    const MainResult ids = RunMain({"tokenize", "-m", model, "--no-bos"}, text);
    ASSERT_EQ(ids.exit_code, 0) << ids.err;
    EXPECT_EQ(RunMain({"tokenize", "-m", model, "--decode"}, ids.out).out,
              text);
  }
  EXPECT_EQ(RunMain({"tokenize", "-m", kSpm, "--decode"}, "15043,\n3186").out,
            "Hello world");
  EXPECT_EQ(RunMain({"tokenize", "-m", kSpm, "--decode"}, "\n").out, "");
}

TEST(TokenizeCommandTest, RefusesWrongIds) {
  for (const char* ids : {"32000", "-1", "x", "1 2 99999999999999999999"}) {
    const MainResult result =
        RunMain({"tokenize", "-m", kSpm, "--decode"}, ids);
    EXPECT_EQ(result.exit_code, 1) << ids;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr("token ids: "));
  }
}

TEST(TokenizeCommandTest, NamesAMissingFile) {
  const MainResult result = RunMain({"tokenize", "-m", "no/such.gguf"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("no/such.gguf"));
}

}  // namespace
}  // namespace thermocline::cli

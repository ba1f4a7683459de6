#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "cli/test_main.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(SynthCommandTest, WritesTheModelItsTwinAndAText) {
  const std::string model = TempPath("s.gguf");
  const std::string twin = TempPath("s.powerinfer.gguf");
  const std::string text = TempPath("s.txt");
  const MainResult result =
      RunMain({"synth", "--like", "tiny", "--layers", "1", "-o", model,
               "--powerinfer", twin, "--text", text, "--words", "20"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("synthetic like tiny, q4_0: 1 layer of "
                                    "2048 neurons, density 0.1, skew 0.26, "
                                    "locality 0.6, seed 1"));
  EXPECT_THAT(result.out, HasSubstr("predictor: rank 96"));
  for (const std::string& path : {model, twin, text}) {
    EXPECT_THAT(result.out, HasSubstr("wrote " + path));
    EXPECT_TRUE(std::filesystem::remove(path));
  }
}

TEST(SynthCommandTest, RecordsWithoutAPredictor) {
  const std::string model = TempPath("s.gguf");
  const MainResult result = RunMain({"synth", "--like", "tiny", "--layers", "1",
                                     "--no-predictor", "-o", model});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, Not(HasSubstr("predictor: rank")));
  const MainResult inspected = RunMain({"inspect", model});
  EXPECT_THAT(inspected.out, HasSubstr("records       Q4_0 up, Q4_0 down"));
  EXPECT_THAT(inspected.out, HasSubstr("runs            exact"));
  std::filesystem::remove(model);
}

TEST(SynthCommandTest, SaysWhatIsNotAsInTheOriginal) {
  const std::string help = RunMain({"synth", "--help"}).out;
  EXPECT_THAT(help, HasSubstr("gpt-oss-20b: its experts in a llama's body"));
  const std::string model = TempPath("none.gguf");
  const MainResult blocks = RunMain(
      {"synth", "--like", "gpt-oss-20b", "--type", "q6_k", "-o", model});
  EXPECT_EQ(blocks.exit_code, 2);
  EXPECT_THAT(blocks.err, HasSubstr("those of F32, F16, Q8_0, Q4_0 do"));
}

TEST(SynthCommandTest, RecordsForStorage) {
  const std::string model = TempPath("s.gguf");
  const MainResult result =
      RunMain({"synth", "--like", "tiny", "--layers", "1", "--for-storage",
               "--no-predictor", "-o", model});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const MainResult inspected = RunMain({"inspect", model});
  EXPECT_THAT(inspected.out,
              HasSubstr("records       Q4_0 gate, Q4_0 up, Q4_0 down"));
  std::filesystem::remove(model);
  const MainResult plain = RunMain(
      {"synth", "--like", "tiny", "--for-storage", "--plain", "-o", model});
  EXPECT_EQ(plain.exit_code, 2);
  EXPECT_THAT(plain.err, HasSubstr("there are no records"));
}

TEST(SynthCommandTest, RefusesOutputsThatAreOneFile) {
  const std::string model = TempPath("one.gguf");
  const MainResult result =
      RunMain({"synth", "--like", "tiny", "-o", model, "--powerinfer", model});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("two outputs have this name"));
  const std::filesystem::path path = model;
  const MainResult spelt =
      RunMain({"synth", "--like", "tiny", "-o", model, "--text",
               (path.parent_path() / "." / path.filename()).string()});
  EXPECT_EQ(spelt.exit_code, 1);
  EXPECT_THAT(spelt.err, HasSubstr("two outputs have this name"));
  EXPECT_FALSE(std::filesystem::exists(model));
}

TEST(SynthCommandTest, SaysWhatIsNotPossible) {
  const std::string model = TempPath("none.gguf");
  const auto error_of = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"synth", "-o", model, "--like"});
    const MainResult result = RunMain(flags);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_FALSE(std::filesystem::exists(model));
    return result.err;
  };
  EXPECT_THAT(error_of({"gpt-5"}), HasSubstr("no model \"gpt-5\""));
  EXPECT_THAT(error_of({"tiny", "--layers", "1000"}),
              HasSubstr("1000 layers of tiny are not possible"));
  EXPECT_THAT(error_of({"tiny", "--density", "0"}),
              HasSubstr("a density of 0 is not possible"));
  EXPECT_THAT(error_of({"tiny", "--density", "0.7"}),
              HasSubstr("a density of 0.7 is not possible"));
  EXPECT_THAT(error_of({"tiny", "--skew", "0.05"}),
              HasSubstr("a skew of 0.05 is not possible"));
  EXPECT_THAT(error_of({"tiny", "--type", "q8_0", "--powerinfer", "x.gguf"}),
              HasSubstr("f16 and q4_0 only"));
  EXPECT_THAT(error_of({"tiny", "--expert-skew", "0.5"}),
              HasSubstr("tiny has no experts"));
  EXPECT_THAT(error_of({"tiny-moe", "--expert-skew", "0.01"}),
              HasSubstr("experts: a skew of 0.01 is not possible"));
  EXPECT_THAT(error_of({"tiny-moe", "--expert-locality", "0.1"}),
              HasSubstr("experts: a locality of 0.1 is not possible"));
  EXPECT_THAT(error_of({"tiny", "--topics", "0"}), HasSubstr("--topics"));
  EXPECT_THAT(error_of({"tiny", "--topics", "13"}),
              HasSubstr("too narrow for the blocks of 32 of Q4_0, one for each "
                        "of 13 topics"));
  EXPECT_THAT(error_of({"tiny", "--words", "10"}), HasSubstr("--text"));
  const MainResult usage = RunMain({"synth", "-o", model});
  EXPECT_EQ(usage.exit_code, 2);
}

}  // namespace
}  // namespace thermocline::cli

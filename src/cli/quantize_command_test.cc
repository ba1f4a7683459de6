#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "cli/test_files.h"
#include "cli/test_main.h"
#include "gguf/gguf.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class QuantizeCommandTest : public ::testing::Test {
 protected:
  ~QuantizeCommandTest() override { std::filesystem::remove(output); }

  DType TypeOf(const std::string& tensor) {
    const auto file = gguf::File::Open(output);
    EXPECT_TRUE(file.has_value());
    return (*file)->FindTensor(tensor)->dtype;
  }
  void ExpectUsageError(std::vector<std::string> args,
                        const std::string& message) {
    args.insert(args.begin(), "quantize");
    const MainResult result = RunMain(args);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_FALSE(std::filesystem::exists(output));
  }

  const std::string output =
      TempPath(::testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(QuantizeCommandTest, WritesTheMixAndReportsIt) {
  const MainResult result = RunMain({"quantize", kLlamaF16, output, "q4_k_m"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("Q4_K     13 tensors     1.05 M weights"));
  EXPECT_THAT(result.out,
              HasSubstr("weights 2.44 MiB -> 764.75 KiB, 16.02 -> 4.90 bits"));
  EXPECT_THAT(result.out, HasSubstr("wrote " + output + ": Q4_K_M"));
  EXPECT_THAT(result.out, Not(HasSubstr("blk.0")));
  EXPECT_EQ(TypeOf("blk.1.ffn_down.weight"), DType::kQ6_K);
}

TEST_F(QuantizeCommandTest, TheOutputMayBeAFlag) {
  EXPECT_EQ(
      RunMain({"quantize", kLlamaF16, "Q8_0", "-o", output, "-v"}).exit_code,
      0);
  EXPECT_EQ(TypeOf("output.weight"), DType::kQ8_0);
}

TEST_F(QuantizeCommandTest, TypesOfSingleTensors) {
  const MainResult result = RunMain(
      {"quantize", kLlamaF16, output, "Q4_0", "--tensor-type", "attn_v=q8_0",
       "--tensor-type", "blk.0.ffn=F16", "--output-tensor-type", "q5_1",
       "--token-embedding-type", "Q5_K", "-t", "2"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(TypeOf("blk.1.attn_v.weight"), DType::kQ8_0);
  EXPECT_EQ(TypeOf("blk.0.ffn_up.weight"), DType::kF16);
  EXPECT_EQ(TypeOf("blk.1.ffn_up.weight"), DType::kQ4_0);
  EXPECT_EQ(TypeOf("output.weight"), DType::kQ5_1);
  EXPECT_EQ(TypeOf("token_embd.weight"), DType::kQ5_K);
}

TEST_F(QuantizeCommandTest, Pure) {
  EXPECT_EQ(
      RunMain({"quantize", "--pure", kLlamaF16, output, "Q4_K_M"}).exit_code,
      0);
  EXPECT_EQ(TypeOf("output.weight"), DType::kQ4_K);
}

TEST_F(QuantizeCommandTest, DryRunNamesEveryTensorAndWritesNothing) {
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"quantize", "--dry-run", kLlamaF16, "q4_k_m"},
        {"quantize", "--dry-run", kLlamaF16, output, "q4_k_m"}}) {
    const MainResult result = RunMain(args);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("blk.1.ffn_down.weight"));
    EXPECT_THAT(result.out, HasSubstr("F16 -> Q6_K"));
    EXPECT_THAT(result.out, Not(HasSubstr("wrote")));
    EXPECT_FALSE(std::filesystem::exists(output));
  }
}

TEST_F(QuantizeCommandTest, RefusesToReplaceItsInput) {
  const MainResult result = RunMain({"quantize", kLlamaF16, kLlamaF16, "Q4_0"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("one of the files to read"));
}

TEST_F(QuantizeCommandTest, RefusesToQuantiseTwice) {
  const MainResult result = RunMain({"quantize", kLlamaQ8_0, output, "Q4_0"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("--allow-requantize"));
  EXPECT_FALSE(std::filesystem::exists(output));
  EXPECT_EQ(
      RunMain({"quantize", "--allow-requantize", kLlamaQ8_0, output, "Q4_0"})
          .exit_code,
      0);
  EXPECT_EQ(TypeOf("blk.0.ffn_up.weight"), DType::kQ4_0);
}

TEST_F(QuantizeCommandTest, HelpSaysWhatMayBeLeftOut) {
  const MainResult result = RunMain({"quantize", "--help"});
  EXPECT_THAT(result.out,
              HasSubstr("Usage: thermocline quantize IN [OUT] TYPE [FLAGS]"));
  EXPECT_THAT(result.out, HasSubstr("IN REQUIRED"));
  EXPECT_THAT(result.out, HasSubstr("TYPE REQUIRED"));
  EXPECT_THAT(result.out, Not(HasSubstr("OUT] REQUIRED")));
}

TEST_F(QuantizeCommandTest, WrongUsage) {
  ExpectUsageError({}, "IN is required");
  ExpectUsageError({kLlamaF16}, "TYPE is required: one of Q4_0");
  ExpectUsageError({kLlamaF16, output}, "TYPE is required");
  ExpectUsageError({kLlamaF16, "--dry-run"}, "TYPE is required");
  ExpectUsageError({kLlamaF16, output, "--dry-run"}, "TYPE is required");
  ExpectUsageError({kLlamaF16, "-o", output}, "TYPE is required");
  ExpectUsageError({kLlamaF16, "Q4_0"}, "OUT is required");
  ExpectUsageError({kLlamaF16, "Q4_0", "-o", ""}, "the path is empty");
  ExpectUsageError({kLlamaF16, output, "-o", output}, "is not one of Q4_0");
  ExpectUsageError({kLlamaF16, output, "Q4_9"}, "'Q4_9' is not one of Q4_0");
  ExpectUsageError({kLlamaF16, output, "Q4_0", "8"}, "unknown argument '8'");
  ExpectUsageError({kLlamaF16, output, "Q4_0", "-o", output}, "not both");
  ExpectUsageError({kLlamaF16, output, "Q4_0", "--tensor-type", "attn_v"},
                   "'attn_v' is not NAME=TYPE");
  ExpectUsageError({kLlamaF16, output, "Q4_0", "--tensor-type", "attn_v=q2_k"},
                   "'q2_k' is not one of f32, f16");
  ExpectUsageError({kLlamaF16, output, "Q4_0", "--leave-output-tensor",
                    "--output-tensor-type", "q8_0"},
                   "exclude each other");
  ExpectUsageError({kLlamaF16, output, "Q4_0", "--tensor-type", "(a=q8_0"},
                   "--tensor-type: pattern (a does not compile");
  ExpectUsageError({kLlamaF16, output, "Q4_0", "--output-tensor-type", "big"},
                   "--output-tensor-type: 'big' is not one of");
}

}  // namespace
}  // namespace thermocline::cli

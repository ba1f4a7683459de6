#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "cli/inspect_report.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

InspectReport Sample() {
  InspectReport report = {};
  report.path = "m.gguf";
  report.gguf_version = 3;
  report.num_shards = 1;
  report.num_file_bytes = 2048;
  report.architecture = "llama";
  report.name = "bad \x1b[31m name \xff";
  report.num_params = 1'500'000;
  report.num_tensors = 3;
  report.num_weight_bytes = 1024;
  report.quantisation[TensorClass::kFfn][DType::kQ4_0] = {2, 1000};
  report.quantisation[TensorClass::kNorm][DType::kF32] = {1, 24};
  report.shape.width = 64;
  report.shape.num_heads = 8;
  report.shape.num_kv_heads = 4;
  report.isa = "avx2";
  return report;
}

InspectReport Running() {
  InspectReport report = Sample();
  report.config = model::Config{};
  report.config->ffn = {.activation = Activation::kFatRelu, .threshold = 0.5f};
  report.config->rope.width = 8;
  report.tokenizer_model = "llama";
  report.vocab = text::Vocab{.tokens = {"<s>", "a"}, .bos = 0, .add_bos = true};
  report.memory = engine::MemoryNeed{.kv_bytes = 4096, .scratch_bytes = 512};
  report.memory_context = 256;
  return report;
}

TEST(FormatInspectTest, DescribesWhatRuns) {
  const std::string text = FormatInspect(Running());
  EXPECT_THAT(text, HasSubstr("file            m.gguf (GGUF v3, 1 file, 2.00 "
                              "KiB)\n"));
  EXPECT_THAT(text, HasSubstr("parameters      1.50 M\n"));
  EXPECT_THAT(text, HasSubstr("2 x Q4_0 (1000 B)"));
  EXPECT_THAT(text, HasSubstr("heads           8\nkv heads        4\n"));
  EXPECT_THAT(text, HasSubstr("fatrelu(0.5), gated"));
  EXPECT_THAT(text, HasSubstr("bos 0 '<s>', bos is added"));
  EXPECT_THAT(text, HasSubstr("4.00 KiB for the KV cache (f16, context 256)"));
  EXPECT_THAT(text, HasSubstr("runs            dense, avx2\n"));
}

TEST(FormatInspectTest, DescribesWhatDoesNotRun) {
  InspectReport report = Sample();
  report.cannot_run = "architecture 'falcon' is not supported";
  const std::string text = FormatInspect(report);
  EXPECT_THAT(text, HasSubstr("cannot run      architecture 'falcon'"));
  EXPECT_THAT(text, Not(HasSubstr("\nruns")));
  EXPECT_THAT(text, HasSubstr("tokenizer       none"));
}

TEST(FormatInspectTest, AFileCannotSteerTheTerminal) {
  EXPECT_THAT(FormatInspect(Sample()),
              HasSubstr("name            bad \\x1b[31m name \\xff\n"));
  InspectReport report = Running();
  const std::string bad = "\u009b2J\u202e\x1b\n" + std::string(1000, 'x');
  report.name = report.architecture = report.tokenizer_model = bad;
  report.vocab->pre = report.vocab->tokens[0] = bad;
  report.tokenizer_problem = report.cannot_run = "\u009b2J\x1b\n";
  const std::string text = FormatInspect(report);
  for (const char* steering : {"\u009b", "\u202e", "\x1b"}) {
    EXPECT_THAT(text, Not(HasSubstr(steering)));
  }
  EXPECT_LT(text.size(), 3000u);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'),
            std::ranges::count(FormatInspect(Running()), '\n') + 1);
}

}  // namespace
}  // namespace thermocline::cli

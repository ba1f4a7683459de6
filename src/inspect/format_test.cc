#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "inspect/report.h"

namespace thermocline::inspect {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

InspectReport SmallReport() {
  InspectReport report = {};
  report.path = "m.gguf";
  report.gguf_version = 3;
  report.num_shards = 1;
  report.num_file_bytes = 2048;
  report.architecture = "llama";
  report.name = "bad \x1b[31m name \xff";
  report.total = {3, 1024, 1'500'000};
  report.tensors = {{.role = TensorRole::kFfnUp,
                     .layer = 0,
                     .dtype = DType::kQ4_0,
                     .num_tensors = 2,
                     .num_bytes = 1000},
                    {.role = TensorRole::kNorm, .num_bytes = 24}};
  report.shape.width = 64;
  report.shape.num_heads = 8;
  report.shape.num_kv_heads = 4;
  report.isa = "avx2";
  return report;
}

InspectReport Running() {
  InspectReport report = SmallReport();
  report.config = model::Config{.layers = {{}}, .ropes = {{.width = 8}}};
  report.config->layers[0].ffn = {.activation = Activation::kFatRelu,
                                  .threshold = 0.5f};
  report.tokenizer_model = "llama";
  report.vocab = text::Vocab{.tokens = {"<s>", "a"}, .bos = 0, .add_bos = true};
  report.memory = engine::MemoryPlan{.host = {.kv = 4096, .scratch = 512}};
  report.memory_context = 256;
  report.executor = "dense";
  report.weight_bytes_per_token = 1024;
  report.kv_bytes = KvBytes{.f16 = 64, .q8_0 = 34};
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
  EXPECT_THAT(text, HasSubstr("a token reads   1.00 KiB of weights, every"));
  EXPECT_THAT(text, HasSubstr("64 B a position in f16, 34 B in q8_0\n"));
  EXPECT_THAT(text, Not(HasSubstr("experts")));
  EXPECT_THAT(text, Not(HasSubstr("predictors")));
}

TEST(FormatInspectTest, DescribesExpertsPositionsAndPredictors) {
  InspectReport report = Running();
  report.container = gguf::Container::kPowerInfer;
  report.shape.num_experts = 8;
  report.shape.num_experts_used = 2;
  report.sparsity = {.predictor_ranks = {16, 16, 0, 24},
                     .predictor_bias = true,
                     .score_threshold = 0.25};
  report.tensors.push_back({.role = TensorRole::kPositionEmbedding,
                            .shape = {.ne = {64, 2050, 1, 1}, .rank = 2}});
  const std::string text = FormatInspect(report);
  EXPECT_THAT(text, HasSubstr("(PWRI v3,"));
  EXPECT_THAT(text, HasSubstr("experts         8, 2 for each token\n"));
  EXPECT_THAT(text, HasSubstr("positions       learned, 2050 rows\n"));
  EXPECT_THAT(text, HasSubstr("3 layers, rank 16 to 24, with bias\n"));
  EXPECT_THAT(text, HasSubstr("0-1: 16, 2: 0, 3: 24\n"));
  EXPECT_THAT(text, HasSubstr("threshold     0.25\n"));
}

TEST(FormatInspectTest, DescribesASplitFile) {
  InspectReport report = SmallReport();
  report.split = SplitFile{.kind = "PowerInfer GPU index",
                           .num_layers = 2,
                           .num_neurons = 6,
                           .num_gpu_neurons = 2,
                           .vram_bytes = 1024,
                           .neurons_per_group = {}};
  const std::string text = FormatInspect(report);
  EXPECT_THAT(text, HasSubstr("PowerInfer GPU index: 2 layers, 6 neurons\n"));
  EXPECT_THAT(text, HasSubstr("on the GPU    2\n"));
  EXPECT_THAT(text, HasSubstr("1.00 KiB of GPU memory\n"));
  EXPECT_THAT(text, Not(HasSubstr("group size")));
}

TEST(FormatInspectTest, DescribesWhatDoesNotRun) {
  InspectReport report = SmallReport();
  report.cannot_run = "architecture 'falcon' is not supported";
  const std::string text = FormatInspect(report);
  EXPECT_THAT(text, HasSubstr("cannot run      architecture 'falcon'"));
  EXPECT_THAT(text, Not(HasSubstr("\nruns")));
  EXPECT_THAT(text, HasSubstr("tokenizer       none"));
}

TEST(FormatInspectTest, AFileCannotSteerTheTerminal) {
  EXPECT_THAT(FormatInspect(SmallReport()),
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
}  // namespace thermocline::inspect

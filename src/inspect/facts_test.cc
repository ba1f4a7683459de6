#include "inspect/facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace thermocline::inspect {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ListFactsTest, SaysWhatTheFileSays) {
  InspectReport report;
  report.path = "/some/folder/m.gguf";
  report.gguf_version = 3;
  report.num_shards = 2;
  report.num_file_bytes = 1024;
  report.architecture = "llama";
  report.shape.num_layers = 32;
  report.shape.num_heads = 8;
  report.shape.num_kv_heads = 2;
  report.shape.num_experts = 8;
  report.shape.num_experts_used = 2;
  report.sparsity = {.predictor_ranks = {16, 24},
                     .predictor_bias = true,
                     .score_threshold = 0.5};
  report.tensors = {{.role = TensorRole::kFfnDownT}};
  report.metadata = {
      {.key = "thermocline.ffn.activation", .type = "string", .value = "relu"}};
  report.tokenizer_model = "gpt2";
  report.vocab = text::Vocab{.tokens = {"<s>", "<b>"}, .bos = 1};
  const std::string html = ListFacts(report);
  EXPECT_THAT(html, HasSubstr("<dd>m.gguf, GGUF v3, 2 files</dd>"));
  EXPECT_THAT(html, Not(HasSubstr("folder")));
  EXPECT_THAT(html, HasSubstr("<dt>layers</dt><dd>32</dd>"));
  EXPECT_THAT(html, HasSubstr("<dd>8 query, 2 key-value</dd>"));
  EXPECT_THAT(html, HasSubstr("<dd>8, 2 for each token</dd>"));
  EXPECT_THAT(html,
              HasSubstr("<dd>rank by layer 0: 16, 1: 24, with bias</dd>"));
  EXPECT_THAT(html, HasSubstr("<dt>score threshold</dt><dd>0.5</dd>"));
  EXPECT_THAT(html, HasSubstr("<dd>transposed: a row per neuron</dd>"));
  EXPECT_THAT(html,
              HasSubstr("<code>thermocline.ffn.activation = relu</code>"));
  EXPECT_THAT(html, HasSubstr("<dd>gpt2, 2 tokens</dd>"));
  EXPECT_THAT(html, HasSubstr("<dd>bos 1 <code>&lt;b&gt;</code></dd>"));
}

TEST(ListFactsTest, LeavesOutWhatIsNotThere) {
  const std::string html = ListFacts(InspectReport());
  for (const char* term : {"layers", "experts", "predictors", "threshold",
                           "activation", "architecture", "special"}) {
    EXPECT_THAT(html, Not(HasSubstr(term))) << term;
  }
  EXPECT_THAT(html, HasSubstr("<dt>tokenizer</dt><dd>none</dd>"));
}

TEST(ListFactsTest, DescribesASplitFile) {
  InspectReport report;
  report.split = SplitFile{.kind = "KAIROX model split",
                           .num_layers = 2,
                           .num_neurons = 64,
                           .num_gpu_neurons = {},
                           .vram_bytes = {},
                           .neurons_per_group = 16};
  const std::string html = ListFacts(report);
  EXPECT_THAT(html, HasSubstr("<dd>KAIROX model split</dd>"));
  EXPECT_THAT(html, HasSubstr("<dt>neurons per group</dt><dd>16</dd>"));
  EXPECT_THAT(html, Not(HasSubstr("tokenizer")));
}

}  // namespace
}  // namespace thermocline::inspect

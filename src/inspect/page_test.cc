#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "inspect/report.h"

namespace thermocline::inspect {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kEvil = "<script>\"'&\x1b\xff</code>";

InspectReport ReportToDraw() {
  InspectReport report;
  report.path = "/folder/m.gguf";
  report.architecture = "llama";
  report.name = "a name";
  report.num_file_bytes = 2048;
  report.total = {2, 1024, 2048};
  report.tensors = {{.name = "blk.0.ffn_up.weight",
                     .role = TensorRole::kFfnUp,
                     .layer = 0,
                     .dtype = DType::kQ4_K,
                     .shape = {.ne = {256, 4, 1, 1}, .rank = 2},
                     .num_bytes = 1000,
                     .num_params = 1024},
                    {.name = "blk.0.ffn_norm.weight",
                     .role = TensorRole::kNorm,
                     .layer = 0,
                     .num_bytes = 24,
                     .num_params = 6}};
  report.metadata = {{.key = "k", .type = "u32", .value = "1"}};
  report.config = model::Config{.layers = {{}}};
  report.config->context_length = 8192;
  report.shape.context_length = 8192;
  report.kv_bytes = KvBytes{.f16 = 64, .q8_0 = 34};
  report.weight_bytes_per_token = 1000;
  report.executor = "dense";
  return report;
}

TEST(FormatInspectHtmlTest, DrawsAModelThatRuns) {
  const std::string html = FormatInspectHtml(ReportToDraw());
  EXPECT_THAT(html, HasSubstr("<!DOCTYPE html>"));
  EXPECT_THAT(html, HasSubstr("<h1>a name</h1>"));
  EXPECT_THAT(html,
              HasSubstr("llama, 2.05 K parameters in 2.00 KiB, 4.00 bits"));
  EXPECT_THAT(html, HasSubstr("<p class=\"runs\">runs: dense</p>"));
  EXPECT_THAT(html, HasSubstr("<code>blk.0.ffn_up.weight</code></td><td>Q4_K"
                              "</td><td>[256, 4]</td>"));
  EXPECT_THAT(html, HasSubstr("<td><i class=\"t-Q4_K\"></i>Q4_K</td>"));
  // 1 GB/s over 1000 bytes, and over 1000 + 64 * 8192.
  EXPECT_THAT(html, HasSubstr("<td class=\"n\">1</td><td class=\"n\">1,000,000"
                              "</td><td class=\"n\">1,904</td>"));
  EXPECT_THAT(html, HasSubstr("<td class=\"n\">8,192</td><td class=\"n\"><data "
                              "value=\"524288\">"));
  EXPECT_EQ(html, FormatInspectHtml(ReportToDraw()));
}

TEST(FormatInspectHtmlTest, CountsNoBytesPastSixtyFourBits) {
  InspectReport report = ReportToDraw();
  report.kv_bytes = KvBytes{.f16 = uint64_t{1} << 38, .q8_0 = {}};
  report.shape.context_length = int64_t{1} << 40;
  const std::string html = FormatInspectHtml(report);
  // The most positions, and their bytes.
  EXPECT_THAT(html,
              HasSubstr("<td class=\"n\">67,108,863</td><td class=\"n\"><data "
                        "value=\"18446743798831644672\">"));
  EXPECT_THAT(html, Not(HasSubstr("<data value=\"0\">")));
}

TEST(FormatInspectHtmlTest, NeedsNothingFromOutside) {
  const std::string html = FormatInspectHtml(ReportToDraw());
  for (const char* outside : {"http:", "https:", "src=", "href=", "url(",
                              "@import", "<script", "onload"}) {
    EXPECT_THAT(html, Not(HasSubstr(outside))) << outside;
  }
}

TEST(FormatInspectHtmlTest, EscapesEverythingFromTheFile) {
  InspectReport report = ReportToDraw();
  report.path = "/folder/" + kEvil;
  report.name = report.architecture = report.tokenizer_model = kEvil;
  report.tensors[0].name = kEvil;
  report.metadata = {
      {.key = kEvil, .type = "string", .value = kEvil},
      {.key = "thermocline." + kEvil, .type = "", .value = kEvil}};
  report.vocab = text::Vocab{.pre = kEvil, .tokens = {kEvil}, .bos = 0};
  report.cannot_run = report.path + ": " + kEvil;
  std::string html = FormatInspectHtml(report);
  report.vocab.reset();
  report.tokenizer_problem = kEvil;
  html += FormatInspectHtml(report);
  for (const char* markup : {"<script", "\x1b", "\xff", "\"'&"}) {
    EXPECT_THAT(html, Not(HasSubstr(markup))) << markup;
  }
  EXPECT_THAT(html, HasSubstr("&lt;script&gt;"));
}

TEST(FormatInspectHtmlTest, DescribesWhatDoesNotRun) {
  InspectReport report;
  report.path = "/folder/vocab.gguf";
  report.cannot_run = "/folder/vocab.gguf: no tensors";
  const std::string html = FormatInspectHtml(report);
  EXPECT_THAT(html, HasSubstr("<h1>vocab.gguf</h1>"));
  EXPECT_THAT(html, HasSubstr("cannot run: no tensors</p>"));
  EXPECT_THAT(html, Not(HasSubstr("/folder")));
  for (const char* section : {"Where the bytes", "Layers", "a token costs"}) {
    EXPECT_THAT(html, Not(HasSubstr(section))) << section;
  }
}

}  // namespace
}  // namespace thermocline::inspect

#include "inspect/charts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace thermocline::inspect {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

InspectReport Sample() {
  InspectReport report;
  report.tensors = {{.role = TensorRole::kTokenEmbedding,
                     .dtype = DType::kQ6_K,
                     .num_bytes = 600},
                    {.role = TensorRole::kFfnUp,
                     .layer = 0,
                     .dtype = DType::kQ4_K,
                     .num_bytes = 300},
                    {.role = TensorRole::kAttentionQ,
                     .layer = 0,
                     .dtype = DType::kF16,
                     .num_bytes = 90},
                    {.role = TensorRole::kAttentionQ,
                     .layer = 0,
                     .dtype = DType::kF32,
                     .num_bytes = 10},
                    {.role = TensorRole::kFfnUp,
                     .layer = 7,
                     .dtype = DType::kQ6_K,
                     .num_bytes = 200}};
  report.total = {5, 1200, 6000};
  return report;
}

TEST(DrawTreemapTest, DrawsEachRoleWithItsNumbers) {
  const std::string svg = DrawTreemap(Sample());
  EXPECT_THAT(svg, HasSubstr("<title>token embedding: 600 B (600 bytes), "
                             "50.0 %</title><rect class=\"c-embedding\""));
  EXPECT_THAT(svg, HasSubstr("<title>ffn up: 500 B (500 bytes), 41.7 %"));
  EXPECT_THAT(svg, HasSubstr("<text x=\"6\" y=\"17\">ffn up</text>"));
  // The largest class first, from the left edge.
  EXPECT_LT(svg.find("token embedding"), svg.find("ffn up"));
  EXPECT_THAT(svg, HasSubstr("<svg x=\"0.000%\" y=\"0.000%\""));
}

TEST(DrawTreemapTest, LeavesOutLabelsWithoutRoom) {
  InspectReport report = Sample();
  report.tensors[1].num_bytes = 1'000'000;
  const std::string svg = DrawTreemap(report);
  EXPECT_THAT(svg, HasSubstr("<title>attn q"));
  EXPECT_THAT(svg, Not(HasSubstr("\">attn q</text>")));
}

TEST(DrawLayersTest, TheLongestLayerFillsTheWidth) {
  const std::string html = DrawLayers(Sample());
  EXPECT_THAT(html, HasSubstr("aria-label=\"layer 0: attention 100 B, "
                              "ffn 300 B\""));
  EXPECT_THAT(html,
              HasSubstr("<rect class=\"c-attention\" x=\"0.000%\" "
                        "width=\"25.000%\" height=\"100%\"><title>layer 0, "
                        "attention: 100 B (100 bytes), 25.0 %</title>"));
  EXPECT_THAT(html, HasSubstr("<rect class=\"c-ffn\" x=\"25.000%\" "
                              "width=\"75.000%\""));
  EXPECT_THAT(html, HasSubstr("<rect class=\"c-ffn\" x=\"0.000%\" "
                              "width=\"50.000%\""));  // layer 7
}

TEST(DrawTypesTest, CellsNameTheTypeOfMostBytes) {
  const std::string html = DrawTypes(Sample());
  EXPECT_THAT(html, HasSubstr("<td class=\"t-F16\" title=\"layer 0, attn q: "
                              "F32 10 B, F16 90 B\">F16</td>"));
  EXPECT_THAT(html, HasSubstr("<th scope=\"row\">7</th><td></td><td "
                              "class=\"t-Q6_K\" title=\"layer 7, ffn up: Q6_K "
                              "200 B\">Q6_K</td>"));
}

TEST(DrawClassLegendTest, NamesTheClassesThatThereAre) {
  const std::string html = DrawClassLegend(Sample().tensors);
  EXPECT_THAT(html, HasSubstr("<i class=\"c-ffn\"></i>ffn</li>"));
  EXPECT_THAT(html, Not(HasSubstr("predictor")));
}

TEST(DrawTypeLegendTest, NamesTypesAndBits) {
  const std::string html = DrawTypeLegend(Sample().tensors);
  EXPECT_THAT(html, HasSubstr("<i class=\"t-Q4_K\"></i>Q4_K, 4.5 bits</li>"));
  EXPECT_THAT(html, HasSubstr("Q6_K, 6.56 bits</li>"));
  EXPECT_EQ(DrawTypeLegend({}), "");
}

TEST(TypeColoursTest, MoreBitsAreWarmer) {
  const std::string css = TypeColours(Sample().tensors);
  EXPECT_THAT(css, HasSubstr(".t-Q4_K{--hue:200;--sat:60%}"));
  EXPECT_THAT(css, HasSubstr(".t-Q6_K{--hue:110;--sat:60%}"));
  EXPECT_THAT(css, HasSubstr(".t-F16{--hue:30;--sat:60%}"));
  EXPECT_THAT(css, HasSubstr(".t-F32{--hue:0;--sat:0%}"));
  EXPECT_THAT(css, Not(HasSubstr("Q8_0")));
}

TEST(InspectChartsTest, NothingToDraw) {
  const InspectReport empty;
  EXPECT_EQ(DrawTreemap(empty), "");
  EXPECT_EQ(DrawClassLegend({}), "");
  EXPECT_EQ(DrawLayers(empty), "");
  EXPECT_EQ(DrawTypes(empty), "");
  EXPECT_EQ(TypeColours({}), "");
  // Tensors without bytes, and none in a layer.
  InspectReport hollow;
  hollow.tensors = {{.role = TensorRole::kHead}};
  EXPECT_EQ(DrawTreemap(hollow), "");
  EXPECT_EQ(DrawLayers(hollow), "");
}

TEST(DrawBarTest, StaysInItsColumn) {
  EXPECT_THAT(DrawBar(0.5), HasSubstr("width=\"50.000%\""));
  EXPECT_THAT(DrawBar(7.0), HasSubstr("width=\"100.000%\""));
}

}  // namespace
}  // namespace thermocline::inspect

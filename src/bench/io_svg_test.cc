#include "bench/io_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace thermocline::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

IoReport SomeRates() {
  IoReport report = {.cpu = "a <CPU> & more", .path = "model.gguf"};
  report.rates.reader = "io_uring";
  for (const bool is_random : {false, true}) {
    for (const size_t depth : {1u, 32u}) {
      for (const size_t block : {4096u, 65536u, 1u << 20}) {
        report.rates.rates.push_back({.is_random = is_random,
                                      .range_bytes = 1 << 30,
                                      .block_bytes = block,
                                      .depth = depth,
                                      .num_reads = 1000 * depth,
                                      .seconds = 1.0});
      }
    }
  }
  // Within less of the file: not drawn.
  report.rates.rates.push_back({true, 1 << 27, 4096, 7, 999, 1.0});
  return report;
}

size_t CountOf(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST(IoSvg, DrawsALineForEachDepthAndOrder) {
  const std::string svg = DrawIo(SomeRates());
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_EQ(CountOf(svg, "<polyline"), 4u);
  EXPECT_EQ(CountOf(svg, "<circle"), 12u);
  EXPECT_EQ(CountOf(svg, "<g "), CountOf(svg, "</g>"));
  EXPECT_THAT(svg, HasSubstr(">random</text>"));
  EXPECT_THAT(svg, HasSubstr(">sequential</text>"));
  EXPECT_THAT(svg, HasSubstr("4 KiB, 32 under way: 131.1 MB/s"));
  EXPECT_THAT(svg, HasSubstr(">32 under way</tspan>"));
  EXPECT_THAT(svg, Not(HasSubstr(">7 under way")));
  EXPECT_THAT(svg, HasSubstr("a &lt;CPU> &amp; more"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(IoSvg, OneRowIsAPicture) {
  IoReport report = SomeRates();
  report.rates.rates.resize(1);
  const std::string svg = DrawIo(report);
  EXPECT_EQ(CountOf(svg, "<circle"), 1u);
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

}  // namespace
}  // namespace thermocline::bench

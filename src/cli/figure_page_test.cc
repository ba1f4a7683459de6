#include "cli/figure_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Whole, and with nothing from elsewhere.
TEST(FigurePage, IsSelfContained) {
  const std::string html = FormatPage({.title = "a name",
                                       .about = "what it says",
                                       .subtitle = "below",
                                       .style = ".own{}",
                                       .body = "<section/>"});
  EXPECT_THAT(html, ::testing::StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(html, ::testing::EndsWith("</html>\n"));
  EXPECT_THAT(html, HasSubstr("<title>a name: what it says</title>"));
  EXPECT_THAT(html, HasSubstr("<h1>a name</h1>\n<p>below</p>"));
  EXPECT_THAT(html, HasSubstr(".own{}</style>"));
  EXPECT_THAT(html, HasSubstr("<main>\n<section/></main>"));
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  for (const char* outside : {"http:", "https:", "src=", "@import", "url("}) {
    EXPECT_THAT(html, Not(HasSubstr(outside)));
  }
}

TEST(FigurePage, Pieces) {
  EXPECT_EQ(ShareText(0.12345), "12.35 %");
  EXPECT_EQ(ShareText(std::nullopt), "-");
  EXPECT_EQ(NumberCell("7"), "<td class=\"n\">7</td>");
  EXPECT_EQ(PageFact("a", "b"), "<div><dt>a</dt><dd>b</dd></div>\n");
  EXPECT_EQ(PageSection("t", "p", "x"),
            "<section><h2>t</h2>\n<p>p</p>\nx</section>\n");
  EXPECT_EQ(PageRow("n", "l", "d", "f"),
            "<span>n</span><svg role=\"img\" aria-label=\"l\">d</svg>"
            "<span>f</span>\n");
}

TEST(FigurePage, HuesGoFromTheFirstLayerToTheLast) {
  EXPECT_EQ(HueOf(0, 1), 220);
  EXPECT_EQ(HueOf(0, 12), 220);
  EXPECT_EQ(HueOf(11, 12), 0);
  EXPECT_GT(HueOf(4, 12), HueOf(5, 12));
}

}  // namespace
}  // namespace thermocline::cli

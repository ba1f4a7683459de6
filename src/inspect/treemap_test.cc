#include "inspect/treemap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace thermocline::inspect {
namespace {

constexpr Rect kArea = {.x = 2.0, .y = 1.0, .width = 6.0, .height = 4.0};

// The example of the paper.
TEST(TreemapTest, LaysOutThePapersExample) {
  const std::vector<double> weights = {6, 6, 4, 3, 2, 2, 1};
  const std::vector<Rect> rects =
      Treemap(weights, {.x = 0.0, .y = 0.0, .width = 6.0, .height = 4.0});
  ASSERT_EQ(rects.size(), weights.size());
  EXPECT_NEAR(rects[0].width, 3.0, 1e-9);  // the two sixes above each other
  EXPECT_NEAR(rects[0].height, 2.0, 1e-9);
  EXPECT_NEAR(rects[1].y, 2.0, 1e-9);
  EXPECT_NEAR(rects[2].width, 12.0 / 7.0, 1e-9);  // 4 and 3 side by side
  EXPECT_NEAR(rects[2].height, 7.0 / 3.0, 1e-9);
  EXPECT_NEAR(rects[3].width, 9.0 / 7.0, 1e-9);
}

TEST(TreemapTest, FillsTheAreaWithoutOverlap) {
  for (const std::vector<double>& weights : {std::vector<double>{1},
                                             {5, 5},
                                             {1e12, 1, 1e-3},
                                             {1e30, 1, 1},
                                             std::vector<double>(100, 1.0),
                                             {70, 20, 5, 3, 1, 1}}) {
    const std::vector<Rect> rects = Treemap(weights, kArea);
    ASSERT_EQ(rects.size(), weights.size());
    double total = 0.0;
    for (const double weight : weights) total += weight;
    for (size_t i = 0; i < rects.size(); ++i) {
      const Rect& a = rects[i];
      EXPECT_NEAR(a.width * a.height, 24.0 * weights[i] / total, 1e-6);
      EXPECT_GE(a.width, 0.0);
      EXPECT_GE(a.height, 0.0);
      EXPECT_GE(a.x, kArea.x - 1e-9);
      EXPECT_GE(a.y, kArea.y - 1e-9);
      EXPECT_LE(a.x + a.width, kArea.x + kArea.width + 1e-6);
      EXPECT_LE(a.y + a.height, kArea.y + kArea.height + 1e-6);
      for (size_t j = 0; j < i; ++j) {
        const Rect& b = rects[j];
        const double overlap_x =
            std::min(a.x + a.width, b.x + b.width) - std::max(a.x, b.x);
        const double overlap_y =
            std::min(a.y + a.height, b.y + b.height) - std::max(a.y, b.y);
        EXPECT_LE(std::min(overlap_x, overlap_y), 1e-6);
      }
    }
  }
}

TEST(TreemapTest, NothingGivesNothing) {
  EXPECT_TRUE(Treemap({}, kArea).empty());
}

}  // namespace
}  // namespace thermocline::inspect

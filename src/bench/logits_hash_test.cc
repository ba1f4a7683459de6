#include "bench/logits_hash.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace thermocline::bench {
namespace {

TEST(FoldLogitsTest, TellsBitsAndTheirOrderApart) {
  const std::vector<float> logits = {1.0f, -2.0f, 0.0f};
  const auto hash = FoldLogits(logits, kNoLogits);
  ASSERT_TRUE(hash.has_value());
  EXPECT_EQ(FoldLogits(logits, kNoLogits), hash);
  EXPECT_NE(hash, kNoLogits);
  for (const std::vector<float>& other :
       {std::vector<float>{-2.0f, 1.0f, 0.0f}, {1.0f, -2.0f, -0.0f}, {1.0f}}) {
    EXPECT_NE(FoldLogits(other, kNoLogits), hash);
  }
  // Piece by piece as all at once.
  const auto first = FoldLogits(std::span(logits).first(1), kNoLogits);
  EXPECT_EQ(FoldLogits(std::span(logits).subspan(1), *first), hash);
}

TEST(FoldLogitsTest, RefusesWhatIsNotFinite) {
  for (const float bad : {std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_EQ(FoldLogits(std::vector<float>{1.0f, bad}, kNoLogits),
              std::nullopt);
  }
}

}  // namespace
}  // namespace thermocline::bench

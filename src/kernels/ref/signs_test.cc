// Known answers that every table must give.
#include <limits>

#include "kernels/testing.h"

namespace thermocline::kernels {
namespace {

using ::testing::ElementsAre;

class SignsTest : public IsaTest {};
TC_FOR_EACH_ISA(SignsTest);

TEST_P(SignsTest, BitIsSetWhereNegative) {
  std::vector<float> x(67, 1.0f);
  for (size_t i : {0, 5, 31, 63, 64, 66}) x[i] = -1e-30f;
  x[1] = -std::numeric_limits<float>::infinity();
  x[2] = -0.0f;
  x[3] = -std::numeric_limits<float>::quiet_NaN();
  std::vector<uint64_t> words(3, 7);
  kernels().pack_signs(x.data(), x.size(), words.data());
  EXPECT_THAT(words, ElementsAre(0x8000000080000023, 0x5, 7));
}

TEST_P(SignsTest, DifferencesByHand) {
  const std::vector<uint64_t> x = {0, 0xFF};
  const std::vector<uint64_t> rows = {0, 0xFF, ~uint64_t{0}, 0xFE, 1, 0x1FF};
  std::vector<uint32_t> out(4, 9);
  kernels().count_differences(rows.data(), 3, x.data(), 2, out.data());
  EXPECT_THAT(out, ElementsAre(0, 65, 2, 9));
}

TEST_P(SignsTest, RowsWithoutWordsDoNotDiffer) {
  uint32_t out = 9;
  kernels().count_differences(nullptr, 1, nullptr, 0, &out);
  EXPECT_EQ(out, 0u);
}

}  // namespace
}  // namespace thermocline::kernels

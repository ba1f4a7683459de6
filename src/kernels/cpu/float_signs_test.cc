#include "kernels/testing.h"

namespace thermocline::kernels {
namespace {

class FloatSignsTest : public IsaTest {};
TC_FOR_EACH_ISA(FloatSignsTest);

TEST_P(FloatSignsTest, PacksAsTheScalarTable) {
  for (size_t n : kOddSizes) {
    const std::vector<float> x = RandomFloats(n, n);
    std::vector<uint64_t> words(n / 64 + 2, 7), truth = words;
    kernels().pack_signs(x.data(), n, words.data());
    scalar().pack_signs(x.data(), n, truth.data());
    EXPECT_EQ(words, truth) << n;
  }
}

// All bits differ, none, and some, in rows of every length up to long ones.
TEST_P(FloatSignsTest, CountsAsTheScalarTable) {
  constexpr size_t kRows = 5;
  Random random(3);
  for (size_t num_words : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 32, 129, 600}) {
    std::vector<uint64_t> x(num_words), rows(kRows * num_words);
    for (uint64_t& word : x) word = random.Next();
    for (uint64_t& word : rows) word = random.Next();
    for (size_t w = 0; w < num_words; ++w) {
      rows[w] = x[w];
      rows[num_words + w] = ~x[w];
    }
    std::vector<uint32_t> out(kRows), truth(kRows);
    kernels().count_differences(rows.data(), kRows, x.data(), num_words,
                                out.data());
    scalar().count_differences(rows.data(), kRows, x.data(), num_words,
                               truth.data());
    EXPECT_EQ(out, truth) << num_words;
    EXPECT_EQ(out[1], 64 * num_words);
  }
}

}  // namespace
}  // namespace thermocline::kernels

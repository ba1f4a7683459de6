#include "kernels/testing.h"

namespace thermocline::kernels {
namespace {

class FloatOpsTest : public IsaTest {};
TC_FOR_EACH_ISA(FloatOpsTest);

// Both sides compute in double and round once at the end; a last bit may
// differ where the order of the sum does.
void ExpectWithinUlps(const std::vector<float>& out,
                      const std::vector<float>& truth, double ulps,
                      double magnitude) {
  ASSERT_EQ(out.size(), truth.size());
  for (size_t i = 0; i < out.size(); ++i) {
    ASSERT_NEAR(out[i], truth[i],
                2 * ulps * kRounding * (std::abs(truth[i]) + magnitude))
        << "element " << i << " of " << out.size();
  }
}

TEST_P(FloatOpsTest, NormsAgreeWithScalarAtOddSizes) {
  for (size_t n : kOddSizes) {
    // A large mean beside a small spread: float sums would lose the spread.
    std::vector<float> x = RandomFloats(n, n);
    for (float& value : x) value += 1000;
    const std::vector<float> weight = RandomFloats(n, n + 1);
    const std::vector<float> bias = RandomFloats(n, n + 2);
    std::vector<float> out(n + 1, kSentinel), truth(n + 1, kSentinel);
    kernels().rms_norm(x.data(), weight.data(), 1e-5f, n, out.data());
    scalar().rms_norm(x.data(), weight.data(), 1e-5f, n, truth.data());
    ExpectWithinUlps(out, truth, 1, 0);
    for (const float* shift :
         {bias.data(), static_cast<const float*>(nullptr)}) {
      kernels().layer_norm(x.data(), weight.data(), shift, 1e-5f, n,
                           out.data());
      scalar().layer_norm(x.data(), weight.data(), shift, 1e-5f, n,
                          truth.data());
      ExpectWithinUlps(out, truth, 1, 1e-6);
    }
    EXPECT_EQ(out[n], kSentinel);
  }
}

TEST_P(FloatOpsTest, NormsSurviveSquaresBeyondFloat) {
  const std::vector<float> x = {1e30f, -1e30f, 1e30f, 1e30f, -1e30f};
  const std::vector<float> ones(5, 1.0f);
  std::vector<float> out(5);
  kernels().rms_norm(x.data(), ones.data(), 1e-5f, 5, out.data());
  EXPECT_THAT(out, ::testing::ElementsAre(1, -1, 1, 1, -1));
}

TEST_P(FloatOpsTest, RopeAgreesWithScalarAtOddSizes) {
  for (RopeKind kind : {RopeKind::kNorm, RopeKind::kNeox}) {
    for (size_t num_pairs : {1, 2, 3, 7, 8, 15, 16, 17, 32, 33, 64}) {
      constexpr size_t kHeads = 3;
      const size_t width = 2 * num_pairs + 5;
      std::vector<float> cos(num_pairs), sin(num_pairs);
      for (size_t i = 0; i < num_pairs; ++i) {
        cos[i] = std::cos(static_cast<float>(i) + 0.3f);
        sin[i] = std::sin(static_cast<float>(i) + 0.3f);
      }
      const std::vector<float> heads = RandomFloats(kHeads * width, num_pairs);
      std::vector<float> out = heads, truth = heads;
      kernels().rope(out.data(), kHeads, width, kind, cos.data(), sin.data(),
                     num_pairs);
      scalar().rope(truth.data(), kHeads, width, kind, cos.data(), sin.data(),
                    num_pairs);
      ExpectWithinUlps(out, truth, 1, 1);
      for (size_t h = 0; h < kHeads; ++h) {
        for (size_t i = 2 * num_pairs; i < width; ++i) {
          ASSERT_EQ(out[h * width + i], heads[h * width + i])
              << "beyond the rotated width";
        }
      }
    }
  }
}

}  // namespace
}  // namespace thermocline::kernels

#include "kernels/testing.h"

namespace thermocline::kernels {
namespace {

class FloatActivateTest : public IsaTest {};
TC_FOR_EACH_ISA(FloatActivateTest);

// Exp's error is about an ulp plus one rounding of its argument, which weighs
// as much as the argument is large: y = x for SiLU, up to 1.6(x + 0.045x^3)
// for GELU. Below 1e-14 the double tanh of the reference has no digits left.
double Tolerance(Activation activation, double gate, double truth) {
  double argument = 0;
  if (activation == Activation::kSilu) argument = std::abs(gate);
  if (activation == Activation::kGelu) {
    argument = std::abs(1.6 * (gate + 0.045 * gate * gate * gate));
  }
  return (8 + 4 * argument) * kRounding * std::abs(truth) + 1e-13;
}

TEST_P(FloatActivateTest, AgreesWithScalarAtOddSizes) {
  for (const ActivationInfo& info : Activations()) {
    const Activation activation = info.activation;
    for (size_t n : kOddSizes) {
      const std::vector<float> gate = RandomFloats(n, n, 12);
      const std::vector<float> up = RandomFloats(n, n + 1, 12);
      std::vector<float> out(n + 1, 77), truth(n + 1, 77);
      kernels().activate(activation, 0.5f, gate.data(), up.data(), n,
                         out.data());
      scalar().activate(activation, 0.5f, gate.data(), up.data(), n,
                        truth.data());
      for (size_t i = 0; i < n; ++i) {
        ASSERT_NEAR(out[i], truth[i], Tolerance(activation, gate[i], truth[i]))
            << NameOf(activation) << " gate " << gate[i] << " up " << up[i];
      }
      ASSERT_EQ(out[n], 77) << "written beyond the end";
    }
  }
}

TEST_P(FloatActivateTest, UngatedAgreesWithScalarOverTheLine) {
  std::vector<float> x;
  for (float v = -120; v <= 120; v += 0.0371f) x.push_back(v);
  std::vector<float> out(x.size()), truth(x.size());
  for (const ActivationInfo& info : Activations()) {
    if (info.needs_gate) continue;
    const Activation activation = info.activation;
    kernels().activate(activation, 0.5f, nullptr, x.data(), x.size(),
                       out.data());
    scalar().activate(activation, 0.5f, nullptr, x.data(), x.size(),
                      truth.data());
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_NEAR(out[i], truth[i], Tolerance(activation, x[i], truth[i]))
          << NameOf(activation) << " x " << x[i];
    }
  }
}

}  // namespace
}  // namespace thermocline::kernels

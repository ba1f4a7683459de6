// Functions for synthetic models whose results are the same bits on every
// machine: made of sums, products and square roots of doubles, where those of C
// libraries differ in the last bit from version to version and CPU to CPU.
#ifndef THERMOCLINE_SYNTH_MATH_H_
#define THERMOCLINE_SYNTH_MATH_H_

namespace thermocline::synth {

// Relative error below 1e-14. Requires |x| <= 700.
double StableExp(double x);

// Absolute error below 1e-13. Requires a positive, normal x.
double StableLog(double x);

// Absolute error below 1e-12. Requires |x| <= 1e4.
double StableCos(double x);
double StableSin(double x);

// P(Z > b) of a standard normal Z. Relative error below 1e-12 for |b| <= 8.
double NormalTail(double b);

// The b with NormalTail(b) = p, to 1e-12 for 1e-12 <= p <= 1 - 1e-12; never
// outside [-8, 8].
double NormalThreshold(double p);

// P(X > b and Y > b) of standard normal X and Y whose correlation is
// sin(angle), 0 <= angle <= pi / 2: p^2 at 0, p at pi / 2.
//   Plackett's identity: the derivative by the correlation r is the joint
//   density at (b, b), exp(-b^2 / (1 + r)) / (2 pi sqrt(1 - r^2)).
double NormalJointTail(double b, double angle);

inline constexpr double kPi = 3.14159265358979323846;

}  // namespace thermocline::synth

#endif  // THERMOCLINE_SYNTH_MATH_H_

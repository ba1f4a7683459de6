#include "cuda_on_host/fiber.h"

#include <gtest/gtest.h>

#include <vector>

namespace thermocline::cuda_on_host {
namespace {

Fiber* fibers[2];
std::vector<int> trail;

template <int kIndex>
void Walk() {
  double kept = kIndex + 0.5;  // in a register that the switch has to keep
  for (int step = 0;; ++step) {
    trail.push_back(10 * kIndex + step);
    fibers[kIndex]->Leave();
    kept += 1.0;
    if (kept != kIndex + step + 1.5) trail.push_back(-1);
  }
}

void ExpectTurns() {
  Fiber a, b;
  fibers[0] = &a;
  fibers[1] = &b;
  trail.clear();
  a.Restart(Walk<0>);
  b.Restart(Walk<1>);
  a.Resume();
  b.Resume();
  b.Resume();
  a.Resume();
  a.Restart(Walk<0>);  // what it was doing is forgotten
  a.Resume();
  EXPECT_EQ(trail, (std::vector{0, 10, 11, 1, 0}));
  int local = 0;
  EXPECT_FALSE(a.Owns(&local));
}

TEST(Fiber, GoesOnWhereItLeft) { ExpectTurns(); }

TEST(Fiber, TheReferenceSwitchDoesTheSame) {
  UseReferenceContexts(true);
  ExpectTurns();
  UseReferenceContexts(false);
}

}  // namespace
}  // namespace thermocline::cuda_on_host

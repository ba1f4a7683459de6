#include "engine/forward/head_executor.h"

#include <gtest/gtest.h>

#include <vector>

#include "compute/test_compute.h"

namespace thermocline::engine {
namespace {

using compute::testing::OwnedTensor;
using compute::testing::TestCompute;

TEST(HostHead, IsTheProductWithTheHead) {
  const TestCompute fixture({.num_rows = 2, .width = 3, .num_threads = 2});
  const OwnedTensor head(
      DType::kF32, std::vector<float>{1, 0, 0, 1, 1, 1, 0, 0, 2, 5, 0, 0}, 3);
  model::Weights weights;
  weights.head = head.view();
  for (size_t t = 0; t < 2; ++t) {
    for (size_t i = 0; i < 3; ++i) {
      fixture.x().row(t)[i] = static_cast<float>(10 * t + i);
    }
  }
  const auto executor = MakeHostHead(&weights, &fixture.compute());
  for (const Phase phase : kPhases) {
    std::vector<float> logits(8, -1.0f);
    const Status status = executor->Run({.phase = phase,
                                         .num_rows = 2,
                                         .normed = fixture.x(),
                                         .logits = {logits.data(), 4, 4}});
    ASSERT_TRUE(status.has_value());
    EXPECT_EQ(logits, (std::vector<float>{0, 3, 4, 0, 10, 33, 24, 50}));
  }
}

}  // namespace
}  // namespace thermocline::engine

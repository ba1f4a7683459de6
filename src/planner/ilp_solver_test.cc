#include "planner/ilp_solver.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace thermocline::planner {
namespace {

IlpModel RandomModel(uint64_t seed) {
  Random random(seed);
  IlpModel model;
  double all = 0.0;
  for (uint64_t l = 1 + random.Below(3); l > 0; --l) {
    IlpLayer& layer = model.layers.emplace_back();
    layer.least = static_cast<uint32_t>(random.Below(9));
    layer.bytes = static_cast<double>(random.Below(50));
    for (uint64_t g = random.Below(5); g > 0; --g) {
      IlpGroup& group = layer.groups.emplace_back();
      group.items.resize(1 + random.Below(4));
      group.impact = random.Uniform();
      group.bytes = static_cast<double>(1 + random.Below(100));
      all += group.bytes;
    }
  }
  model.capacity = random.Uniform() * all;
  return model;
}

// The most impact of all choices, set by set.
double MostImpact(const IlpModel& model, size_t layer_idx, double bytes) {
  if (layer_idx == model.layers.size()) return 0.0;
  const IlpLayer& layer = model.layers[layer_idx];
  double most = -1e9;
  for (uint32_t set = 0; set < 1u << layer.groups.size(); ++set) {
    double impact = 0.0;
    double left = set == 0 ? bytes : bytes - layer.bytes;
    size_t count = 0;
    for (size_t g = 0; g < layer.groups.size(); ++g) {
      if ((set >> g & 1) == 0) continue;
      impact += layer.groups[g].impact;
      left -= layer.groups[g].bytes;
      count += layer.groups[g].items.size();
    }
    if (left < 0.0 || (set != 0 && count < layer.least)) continue;
    most = std::max(most, impact + MostImpact(model, layer_idx + 1, left));
  }
  return most;
}

TEST(IlpSolverTest, FindsWhatTryingAllFinds) {
  if (!HasIlpSolver()) GTEST_SKIP() << "CBC is not here: coinor-libcbc-dev";
  for (uint64_t seed = 0; seed < 80; ++seed) {
    const IlpModel model = RandomModel(seed);
    const Result<IlpAnswer> answer = SolveIlpModel(model, 10.0, 0.0);
    ASSERT_TRUE(answer.has_value()) << answer.error().message;
    EXPECT_TRUE(answer->is_optimal) << seed;
    EXPECT_NEAR(answer->impact, MostImpact(model, 0, model.capacity), 1e-6)
        << seed;
    EXPECT_EQ(answer->is_there.size(), model.layers.size());
  }
}

TEST(IlpSolverTest, NothingToPlaceAndNoTimeAreAnswers) {
  if (!HasIlpSolver()) GTEST_SKIP() << "CBC is not here: coinor-libcbc-dev";
  const Result<IlpAnswer> none = SolveIlpModel({}, 1.0, 0.0);
  ASSERT_TRUE(none.has_value());
  EXPECT_EQ(none->impact, 0.0);
  const Result<IlpAnswer> hasty = SolveIlpModel(RandomModel(3), 0.0, 0.0);
  ASSERT_TRUE(hasty.has_value());
  EXPECT_GE(hasty->bound, hasty->impact - 1e-6);
}

TEST(IlpSolverTest, WithoutCbcItSaysSo) {
  const Result<IlpAnswer> answer = SolveIlpModel({}, 1.0, 0.0);
  EXPECT_EQ(answer.has_value(), HasIlpSolver());
  if (!answer) EXPECT_EQ(answer.error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace thermocline::planner

#include "planner/named.h"

#include <gtest/gtest.h>

#include "planner/check.h"
#include "planner/cost.h"
#include "planner/ilp.h"
#include "planner/test_problem.h"

namespace thermocline::planner {
namespace {

TEST(NamedTest, NamesAreThoseOfTheirMethods) {
  size_t idx = 0;
  for (const MethodInfo& info : Methods()) {
    EXPECT_EQ(static_cast<size_t>(info.method), idx++);
    EXPECT_EQ(ParseMethod(info.name).value(), info.method);
    EXPECT_EQ(InfoOf(info.method).name, info.name);
  }
  const Result<Method> none = ParseMethod("best");
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
  EXPECT_NE(none.error().message.find("\"best\"; there are native, ilp"),
            std::string::npos);
}

TEST(NamedTest, EveryMethodsPlacementsPassTheChecker) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Problem problem = RandomProblem(seed, 100);
    const double native = PlaceByMethod(problem, Method::kNative)->seconds;
    for (const MethodInfo& info : Methods()) {
      const Result<NamedPlacement> named = PlaceByMethod(problem, info.method);
      if (!named) {
        const bool may_fail = info.method == Method::kAllDevice ||
                              info.method == Method::kStreamDense ||
                              info.method == Method::kFetchActive;
        EXPECT_TRUE(may_fail || (info.method == Method::kIlp && !HasIlp()))
            << named.error().message;
        continue;
      }
      Claims claims;
      claims.seconds = named->seconds;
      claims.least_there = named->least_there;
      claims.keeps_rules = false;
      const Status checked = CheckPlacement(problem, named->placement, claims);
      EXPECT_TRUE(checked.has_value())
          << seed << info.name << checked.error().message;
      // Dense ones ask no predictor, which may be worth it where all is small.
      if (named->placement.scheme == Scheme::kSparse) {
        EXPECT_GE(named->seconds * 1.02, native) << seed << info.name;
      }
    }
  }
}

TEST(NamedTest, LayersAreTheLastOnesThatFit) {
  Problem problem = TestModelProblem(5, 300, 2048, 1.0, 1);
  const uint64_t layer_bytes =
      (AllBytes(problem) - InPieces(problem.head.bytes)) / 5;
  problem.budget = 2 * layer_bytes + layer_bytes / 2;
  const Result<NamedPlacement> sparse =
      PlaceByMethod(problem, Method::kSparseLayers);
  ASSERT_TRUE(sparse.has_value());
  EXPECT_FALSE(sparse->placement.layers[2].attention);
  EXPECT_EQ(sparse->placement.layers[3].neurons.size(), 300u);
  EXPECT_TRUE(sparse->placement.layers[4].predictor);
  EXPECT_FALSE(sparse->placement.head);

  MethodOptions options;
  options.num_layers = 2;
  const Result<NamedPlacement> dense =
      PlaceByMethod(problem, Method::kDenseLayers, options);
  ASSERT_TRUE(dense.has_value());
  EXPECT_EQ(dense->placement.scheme, Scheme::kDense);
  EXPECT_FALSE(dense->placement.layers[4].predictor);
  EXPECT_GT(dense->seconds, sparse->seconds);

  options.num_layers = 3;
  const Result<NamedPlacement> three =
      PlaceByMethod(problem, Method::kSparseLayers, options);
  ASSERT_FALSE(three.has_value());
  EXPECT_EQ(three.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(three.error().message.find("3 whole layers takes"),
            std::string::npos)
      << three.error().message;

  problem.budget = AllBytes(problem);
  options.num_layers = 6;
  EXPECT_TRUE(
      PlaceByMethod(problem, Method::kSparseLayers, options)->placement.head);
}

TEST(NamedTest, EverythingIsThereOrRefusedWithWhatItTakes) {
  Problem problem = TestModelProblem(3, 100, 64, 1.0, 1);
  problem.layers[0].attention.rule = Rule::kHost;
  const Result<NamedPlacement> all = PlaceByMethod(problem, Method::kAllDevice);
  ASSERT_TRUE(all.has_value());
  EXPECT_FALSE(all->placement.layers[0].attention);
  EXPECT_TRUE(all->placement.head && all->placement.layers[2].attention);
  problem.budget = 1000;
  const Result<NamedPlacement> none =
      PlaceByMethod(problem, Method::kAllDevice);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(PlaceByMethod(problem, Method::kAllHost)->placement,
            AllOnHost(problem));
}

// Keys and values are there, whatever crosses; layers as they fit beside them.
TEST(NamedTest, WithALinkCachesOfAllLayersAreThere) {
  Problem problem = TestModelProblem(20, 500, 64, 0.15, 1);
  uint64_t cache_bytes = 0;
  for (Layer& layer : problem.layers) {
    layer.attention.kv_bytes = 4096;
    cache_bytes += 4096;
  }
  for (const Method method : {Method::kStreamDense, Method::kFetchActive}) {
    const bool is_dense = method == Method::kStreamDense;
    Problem small = problem;
    const Result<NamedPlacement> most = PlaceByMethod(small, method);
    ASSERT_TRUE(most.has_value()) << most.error().message;
    EXPECT_EQ(most->placement.scheme,
              is_dense ? Scheme::kStream : Scheme::kFetch);
    EXPECT_TRUE(most->placement.layers[19].attention);
    EXPECT_EQ(most->placement.layers[19].predictor, !is_dense);
    EXPECT_FALSE(most->placement.layers[0].attention);
    small.budget = cache_bytes;
    const Result<NamedPlacement> none = PlaceByMethod(small, method);
    ASSERT_TRUE(none.has_value()) << none.error().message;
    EXPECT_FALSE(none->placement.layers[19].attention);
    EXPECT_GT(none->seconds, most->seconds);
    small.budget -= 1;
    const Result<NamedPlacement> refused = PlaceByMethod(small, method);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
    EXPECT_NE(refused.error().message.find(
                  "the cache of all layers' keys and values takes 80.00 KiB"),
              std::string::npos)
        << refused.error().message;
  }
}

TEST(NamedTest, RulesCountForMethodsThatAreNoneThemselves) {
  Problem problem = TestModelProblem(3, 100, 64, 1.0, 1);
  problem.head.rule = Rule::kHost;
  problem.layers[1].neurons.rule = Rule::kDevice;
  for (const Method method : {Method::kNative, Method::kFrequency}) {
    const Result<NamedPlacement> named = PlaceByMethod(problem, method);
    ASSERT_TRUE(named.has_value());
    EXPECT_TRUE(CheckPlacement(problem, named->placement).has_value());
  }
  EXPECT_TRUE(PlaceByMethod(problem, Method::kAllHost)
                  ->placement.layers[1]
                  .neurons.empty());
}

}  // namespace
}  // namespace thermocline::planner

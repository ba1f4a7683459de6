#include "training/threshold_search.h"

#include <cmath>

#include "engine/testing/tiny_model.h"
#include "training/testing.h"

namespace thermocline::training {
namespace {

TEST(FindDensityTest, TheLeastThatIsCheapEnough) {
  std::vector<double> asked;
  const auto choice = FindDensity(0.01, 10.0, [&](double density) {
    asked.push_back(density);
    return Result<double>(10.0 + (density < 0.4 ? 1.0 : 0.05));
  });
  ASSERT_TRUE(choice);
  EXPECT_NEAR(choice->density, 0.4, 1.0 / 128);
  EXPECT_GE(choice->density, 0.4);
  EXPECT_NEAR(choice->cost(), 0.005, 1e-9);
  EXPECT_EQ(asked.size(), 7u);
}

TEST(FindDensityTest, NoneAndErrors) {
  const auto none =
      FindDensity(0.0, 10.0, [](double) { return Result<double>(11.0); });
  ASSERT_TRUE(none);
  EXPECT_EQ(none->density, 1.0);
  EXPECT_EQ(none->cost(), 0.0);
  const auto failed = FindDensity(0.0, 10.0, [](double) -> Result<double> {
    return Fail(ErrorCode::kCancelled, "stop");
  });
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "stop");
}

// A SiLU model with a vocabulary: thresholds of 0 change nothing, very large
// ones shut every gate.
TEST(MeasurePerplexityTest, ThresholdsReplaceTheModelsOwn) {
  const auto model = OpenTestModel("testdata/models/stories260K.gguf");
  const auto corpus =
      Corpus::Create(*model, ReadTestFile("testdata/demo/valid.txt"), "text",
                     {.chunk = 16, .max_tokens = 256});
  ASSERT_TRUE(corpus);
  const engine::SessionOptions options = {.num_threads = 2,
                                          .products_batch = 16};
  const auto num_layers = static_cast<size_t>(model->config().num_layers);
  const auto at = [&](const std::vector<float>& thresholds) {
    const auto value =
        MeasurePerplexity(model, *corpus, 2, options, thresholds);
    EXPECT_TRUE(value) << value.error().message;
    return value.value_or(0.0);
  };
  const double dense = at({});
  EXPECT_GT(dense, 1.0);
  EXPECT_NEAR(at(std::vector<float>(num_layers, 0.0f)) / dense, 1.0, 1e-3);
  EXPECT_GT(at(std::vector<float>(num_layers, 1e6f)), 1.05 * dense);
}

}  // namespace
}  // namespace thermocline::training

#include "bench/roof_probe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "engine/session.h"

namespace thermocline::bench {
namespace {

TEST(RoofProbeTest, ReadsAsMuchAsTheModelHas) {
  const auto model = model::Model::Open(std::string(TC_TEST_DATA) +
                                        "/golden/"
                                        "llama-gqa-Q4_0.gguf");
  ASSERT_TRUE(model.has_value()) << model.error().message;
  const auto probe = CreateRoofProbe(**model, 2, uint64_t{1} << 40);
  ASSERT_TRUE(probe.has_value()) << probe.error().message;
  EXPECT_EQ(probe->num_threads(), 2);
  // A few hundred KiB of weights are in every cache that says its size.
  if (IsInCache(**model)) {
    EXPECT_EQ(probe->num_bytes(), size_t{16} << 20);
  } else {
    EXPECT_EQ(probe::LastLevelCacheBytes(), 0u);
  }
}

}  // namespace
}  // namespace thermocline::bench

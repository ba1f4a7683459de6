#include "engine/ffn/ffn_mode.h"

#include <gtest/gtest.h>

namespace thermocline::engine {
namespace {

TEST(FfnMode, NamesRoundTrip) {
  for (const FfnMode mode : {FfnMode::kAuto, FfnMode::kDense, FfnMode::kFast}) {
    EXPECT_EQ(ParseFfnMode(NameOf(mode)), mode);
  }
  EXPECT_EQ(ParseFfnMode("Dense"), std::nullopt);
  EXPECT_EQ(ParseFfnMode(""), std::nullopt);
}

}  // namespace
}  // namespace thermocline::engine

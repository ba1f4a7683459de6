#include "engine/ffn/ffn_mode.h"

#include <gtest/gtest.h>

namespace thermocline::engine {
namespace {

TEST(FfnMode, NamesRoundTrip) {
  for (const FfnMode mode : kFfnModes) {
    EXPECT_EQ(ParseFfnMode(NameOf(mode)), mode);
  }
  EXPECT_EQ(ParseFfnMode("Dense"), std::nullopt);
  EXPECT_EQ(ParseFfnMode(""), std::nullopt);
}

TEST(PredictorChoice, NamesRoundTrip) {
  for (const PredictorChoice choice : kPredictorChoices) {
    EXPECT_EQ(ParsePredictorChoice(NameOf(choice)), choice);
  }
  EXPECT_EQ(ParsePredictorChoice("fast"), std::nullopt);
  for (const char* alias : {"free", "signs"}) {
    EXPECT_EQ(ParsePredictorChoice(alias), PredictorChoice::kTrainingFree);
  }
}

}  // namespace
}  // namespace thermocline::engine

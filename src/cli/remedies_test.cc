#include "cli/remedies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/remedy.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;

std::string Explained(Advice advice) {
  return Explain({ErrorCode::kInvalidArgument, "the fault", advice});
}

TEST(RemediesTest, ErrorsWithoutAdviceStayAsTheyAre) {
  EXPECT_EQ(Explain({ErrorCode::kIo, "gone"}), "gone");
}

TEST(RemediesTest, FlagsStandBehindTheFault) {
  struct Case {
    Advice advice;
    const char* text;
  };
  const Case cases[] = {
      {{Remedy::kContext, 300}, "the fault: use -c 300 or more"},
      {{Remedy::kContext}, "the fault: use another -c"},
      {{Remedy::kContextOrShots, 4},
       "the fault: use -c 4 or more, or fewer --shots"},
      {{Remedy::kSeed}, "the fault: set one with --seed"},
      {{Remedy::kDense}, "the fault: use --ffn dense"},
      {{Remedy::kDeviceLayers, 7}, "the fault: use -ngl 7"},
      {{Remedy::kHostExperts, 3}, "the fault: use --n-cpu-moe 3"},
  };
  for (const auto& [advice, text] : cases) EXPECT_EQ(Explained(advice), text);
  EXPECT_THAT(Explained({Remedy::kMappedMemory}),
              HasSubstr("or leave out --no-mmap and --mlock"));
}

TEST(RemediesTest, EveryRemedyHasWords) {
  const int last = static_cast<int>(Remedy::kSmallerFit);
  for (int i = 1; i <= last; ++i) {
    EXPECT_NE(Explained({static_cast<Remedy>(i)}), "the fault") << i;
  }
}

// What lies between the library and the user keeps the advice.
TEST(RemediesTest, AdviceSurvivesAnnotations) {
  const Status status =
      Annotate("a.gguf", Error{ErrorCode::kIo, "no seed", {Remedy::kSeed}});
  EXPECT_EQ(Explain(status.error()), "a.gguf: no seed: set one with --seed");
}

}  // namespace
}  // namespace thermocline::cli

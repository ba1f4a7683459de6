#include <gtest/gtest.h>

#include "residency/test_passes.h"

namespace thermocline::residency {
namespace {

TEST(WindowPolicy, KeepsWhatTheLastFivePassesUsed) {
  const Story stories[] = {
      {"fills, then nobody leaves who was used just before",
       5,
       2,
       {},
       false,
       "0|1|2|3",
       "0|0 1|0 1|0 1"},
      {"five passes later somebody else comes",
       5,
       2,
       {},
       false,
       "0 1|1|1|1|1|2",
       "0 1|0 1|0 1|0 1|0 1|1 2"},
      {"a use renews",
       5,
       2,
       {},
       false,
       "0 1|1|1|0|1|2|2|2|2",
       "0 1|0 1|0 1|0 1|0 1|0 1|0 1|0 1|1 2"},
      {"the first choice leaves at once",
       4,
       2,
       {1, 4, 2, 3},
       true,
       "0|2",
       "0 1|0 2"},
  };
  for (const Story& story : stories) ExpectStory("window", story);
}

}  // namespace
}  // namespace thermocline::residency

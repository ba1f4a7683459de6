#include "residency/test_passes.h"

namespace thermocline::residency {
namespace {

TEST(EagerPolicy, LoadsAllThatIsUsedAndDropsWhoArrivedFirst) {
  const Story stories[] = {
      {"fills, then drops", 5, 2, {}, false, "0|1|2|3", "0|0 1|1 2|2 3"},
      {"a use renews nothing", 5, 2, {}, false, "0|1|0|2", "0|0 1|0 1|1 2"},
      {"what is in use stays, and leaves later",
       5,
       2,
       {},
       false,
       "0 1|0 2|3",
       "0 1|0 2|2 3"},
      {"of the first choice the least frequent leaves first",
       4,
       2,
       {1, 4, 2, 3},
       true,
       "0|2",
       "0 1|0 2"},
  };
  for (const Story& story : stories) ExpectStory("eager", story);
}

// Where not all fit into a proposal, it goes on with the next numbers.
TEST(EagerPolicy, ProposesWhoIsMissingInTurn) {
  const auto policy = Make("eager", {{6, 1, {}}});
  policy->Initial(0);
  Units came;
  for (const Units& used : ParsePasses("2 3 4 5|3 4 5|2 4 5|2 3 5|2 3 4")) {
    policy->Observe(0, OwnedSet(6, used).set());
    for (const auto& move : policy->Propose(0, 1)) came.push_back(move.unit);
    EXPECT_TRUE(policy->Propose(0, 9).empty());  // who came is in use
  }
  EXPECT_EQ(came, (Units{2, 3, 4, 5, 2}));
}

}  // namespace
}  // namespace thermocline::residency

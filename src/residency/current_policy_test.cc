#include "residency/test_passes.h"

namespace thermocline::residency {
namespace {

TEST(CurrentPolicy, DropsWhoseLastRoundIsLongestAgo) {
  const Story stories[] = {
      {"fills, then drops", 5, 2, {}, false, "0|1|2|3", "0|0 1|1 2|2 3"},
      {"a round renews", 5, 2, {}, false, "0|1|0|2", "0|0 1|0 1|0 2"},
      {"of the first choice the least frequent leaves first",
       4,
       2,
       {1, 4, 2, 3},
       true,
       "0|2",
       "0 1|0 2"},
  };
  for (const Story& story : stories) ExpectStory("current", story);
}

// Groups of 3, the last of 1: the share of its members decides who comes first,
// whatever was before.
TEST(CurrentPolicy, WhoIsUsedMostInThisRoundComesFirst) {
  LayerExtent extent = {5, 2, {}};
  extent.members_per_unit = 3;
  extent.num_members = 13;
  const auto policy = Make("current", {extent});
  policy->Initial(0);
  for (int pass = 0; pass < 9; ++pass) {
    policy->Observe(0, OwnedSet(13, {6, 7, 8}).set());
  }
  policy->Observe(0, OwnedSet(13, {6, 9, 10, 12}).set());
  const auto moves = policy->Propose(0, 9);
  ASSERT_EQ(moves.size(), 2u);  // whoever came stays for this round
  EXPECT_EQ(moves[0].unit, 4u);
  EXPECT_EQ(moves[0].leaves, 1u);
  EXPECT_EQ(moves[1].unit, 3u);
  EXPECT_EQ(moves[1].leaves, 0u);
}

}  // namespace
}  // namespace thermocline::residency

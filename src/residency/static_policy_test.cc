#include "residency/test_passes.h"

namespace thermocline::residency {
namespace {

TEST(StaticPolicy, KeepsItsFirstChoice) {
  const Story stories[] = {
      {"by frequency", 4, 2, {1, 4, 2, 3}, true, "0|2|0 2", "1 3|1 3|1 3"},
      {"without frequencies the first", 4, 2, {}, true, "3|2 3", "0 1|0 1"},
      {"nobody without Initial", 4, 2, {}, false, "0|1|2", "||"},
  };
  for (const Story& story : stories) ExpectStory("static", story);
}

TEST(StaticPolicy, TakesNobodyEvenWhereThereIsRoom) {
  const auto policy = Make("static", {{4, 2, {}}});
  EXPECT_FALSE(policy->Admit(0, 3, {}).is_admitted);
  EXPECT_TRUE(policy->Propose(0, 4).empty());
  EXPECT_EQ(policy->num_resident(0), 0u);
}

TEST(StaticPolicy, ChoosesInEachLayerByItself) {
  const std::vector<float> frequency = {1, 4, 2, 3};
  const auto policy = Make("static", {{4, 1, frequency}, {3, 2, {}}});
  EXPECT_EQ(policy->Initial(1), (Units{0, 1}));
  EXPECT_EQ(policy->Initial(0), (Units{1}));
  EXPECT_TRUE(policy->IsResident(0, 1) && policy->IsResident(1, 1));
  EXPECT_FALSE(policy->IsResident(0, 0));
}

}  // namespace
}  // namespace thermocline::residency

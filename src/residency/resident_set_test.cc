#include "residency/resident_set.h"

#include "residency/test_passes.h"

namespace thermocline::residency {
namespace {

TEST(ResidentSet, TheBestUnitsAreTheMostFrequent) {
  const std::vector<float> frequency = {0.1f, 0.5f, 0.1f, 0.9f, 0.5f};
  EXPECT_EQ(BestUnits({5, 4, frequency}), (Units{3, 1, 4, 0}));
  EXPECT_EQ(BestUnits({5, 9, frequency}).size(), 5u);
  EXPECT_EQ(BestUnits({5, 3, {}}), (Units{0, 1, 2}));
  EXPECT_TRUE(BestUnits({5, 0, frequency}).empty());
  EXPECT_TRUE(BestUnits({}).empty());
}

TEST(ResidentSet, CountsWhoComesAndGoes) {
  ResidentSet residents({70, 2, {}});
  residents.Add(3);
  residents.Add(69);
  EXPECT_TRUE(residents.is_full());
  EXPECT_TRUE(residents.Has(69));
  EXPECT_FALSE(residents.Has(68));
  EXPECT_DEATH(residents.Add(4), "check failed");
  residents.Remove(69);
  EXPECT_EQ(residents.size(), 1u);
  EXPECT_FALSE(residents.Has(69));
  EXPECT_DEATH(residents.Remove(69), "check failed");
}

TEST(ResidentSet, UseLastsUntilTheNextOne) {
  ResidentSet residents({70, 2, {}});
  OwnedSet first(70, {1, 65});
  residents.SetUsed(first.set());
  residents.MarkUsed(2);
  EXPECT_TRUE(residents.IsUsed(1) && residents.IsUsed(65));
  EXPECT_TRUE(residents.IsUsed(2));
  residents.SetUsed(OwnedSet(70, {3}).set());
  EXPECT_FALSE(residents.IsUsed(1) || residents.IsUsed(2));
  EXPECT_TRUE(residents.IsUsed(3));
}

TEST(ResidentSet, NobodyIsPinnedByASetWithoutWords) {
  EXPECT_FALSE(IsPinned({}, 0));
  OwnedSet pinned(70, {1, 69});
  EXPECT_TRUE(IsPinned(pinned.set(), 69));
  EXPECT_FALSE(IsPinned(pinned.set(), 68));
}

}  // namespace
}  // namespace thermocline::residency

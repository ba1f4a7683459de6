#include "residency/unit_heap.h"

#include <map>

#include "residency/test_passes.h"

namespace thermocline::residency {
namespace {

TEST(UnitHeap, KnowsItsFirstLikeASortedSet) {
  constexpr uint32_t kUnits = 50;
  UnitHeap<uint32_t, GreatestFirst> heap(kUnits);
  std::map<uint32_t, uint32_t> keys;  // of members
  Random random(1);
  const auto first_where = [&](auto may) {
    uint32_t first = kNobody;
    for (const auto& [unit, key] : keys) {
      if (may(unit) && (first == kNobody || key > keys[first])) first = unit;
    }
    return first;
  };
  for (int step = 0; step < 5000; ++step) {
    const auto unit = static_cast<uint32_t>(random.Below(kUnits));
    const auto key = static_cast<uint32_t>(random.Below(30));
    if (!keys.contains(unit)) {
      heap.Push(unit, keys[unit] = key);
    } else if (random.Below(2) == 0) {
      heap.Set(unit, keys[unit] = key);
    } else {
      heap.Remove(unit);
      keys.erase(unit);
    }
    if (step % 100 == 0) {
      const auto halve = [](uint32_t k) { return k / 2; };
      heap.MapKeys(halve);
      for (auto& [member, k] : keys) k = halve(k);
    }
    ASSERT_EQ(heap.size(), keys.size());
    if (keys.empty()) continue;
    EXPECT_EQ(heap.first().unit, first_where([](uint32_t) { return true; }));
    const auto is_odd = [](uint32_t one) { return one % 2 == 1; };
    EXPECT_EQ(heap.FirstWhere(is_odd), first_where(is_odd));
  }
}

TEST(UnitHeap, TheLeastFirstIsTheGreatestLast) {
  UnitHeap<int, LeastFirst> least(4);
  UnitHeap<int, GreatestFirst> greatest(4);
  for (const uint32_t unit : {0u, 1u, 2u, 3u}) {
    least.Push(unit, unit < 2 ? 5 : 7);
    greatest.Push(unit, unit < 2 ? 5 : 7);
  }
  Units up;
  Units down;
  while (!least.is_empty()) {
    up.push_back(least.first().unit);
    least.Remove(up.back());
    down.push_back(greatest.first().unit);
    greatest.Remove(down.back());
  }
  EXPECT_EQ(up, (Units{1, 0, 3, 2}));
  EXPECT_EQ(down, (Units{2, 3, 0, 1}));
}

TEST(UnitHeap, RefusesWhoIsNotInIt) {
  UnitHeap<int, LeastFirst> heap(2);
  EXPECT_TRUE(heap.is_empty());
  EXPECT_EQ(heap.FirstWhere([](uint32_t) { return true; }), kNobody);
  heap.Push(1, 0);
  EXPECT_EQ(heap.KeyOf(1), 0);
  EXPECT_DEATH(heap.Remove(0), "check failed");
}

}  // namespace
}  // namespace thermocline::residency

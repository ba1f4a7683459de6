#include <algorithm>

#include "residency/test_passes.h"

namespace thermocline::residency {
namespace {

TEST(LruPolicy, DropsWhoseLastUseIsLongestAgo) {
  const Story stories[] = {
      {"fills, then drops", 5, 2, {}, false, "0|1|2|3", "0|0 1|1 2|2 3"},
      {"a use renews", 5, 2, {}, false, "0|1|0|2", "0|0 1|0 1|0 2"},
      {"what is in use stays, and the oldest leaves later",
       5,
       2,
       {},
       false,
       "0 1 2|2|2 3",
       "0 1|1 2|2 3"},
      {"of the first choice the least frequent leaves first",
       4,
       2,
       {1, 4, 2, 3},
       true,
       "0|2",
       "0 1|0 2"},
  };
  for (const Story& story : stories) ExpectStory("lru", story);
}

class LruReference : public Reference {
 public:
  explicit LruReference(size_t capacity) : capacity_(capacity) {}
  void Begin(const Units& best_first) override { order_ = best_first; }
  void Observe(const Units& used) override {
    used_ = used;
    for (const uint32_t unit : used) {
      if (!Has(unit)) continue;
      std::erase(order_, unit);
      order_.insert(order_.begin(), unit);
    }
  }
  void Admit(uint32_t unit) override {
    if (order_.size() == capacity_) {
      if (order_.empty() || std::ranges::count(used_, order_.back())) return;
      order_.pop_back();
    }
    order_.insert(order_.begin(), unit);
  }
  bool Has(uint32_t unit) const override {
    return std::ranges::count(order_, unit) != 0;
  }

 private:
  size_t capacity_;
  Units order_;
  Units used_;
};

TEST(LruPolicy, KeepsWhatItsReferenceKeeps) {
  ExpectLikeReference("lru", [](size_t, size_t capacity, const auto&) {
    return std::make_unique<LruReference>(capacity);
  });
}

}  // namespace
}  // namespace thermocline::residency

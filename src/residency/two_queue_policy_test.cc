#include <algorithm>

#include "residency/test_passes.h"

namespace thermocline::residency {
namespace {

TEST(TwoQueuePolicy, DropsTheTailOfTheInactiveQueue) {
  // Of three slots less than 2.7 are active: a third active one sends the first
  // back, which leaves in its turn.
  const Story stories[] = {
      {"once", 5, 2, {}, false, "0|1|2|3", "0|0 1|1 2|2 3"},
      {"again", 6, 3, {}, false, "0|0|1|2|3|4", "0|0|0 1|0 1 2|0 2 3|0 3 4"},
      {"too many",
       6,
       3,
       {},
       false,
       "0|0|1|1|2|2|3|4",
       "0|0|0 1|0 1|0 1 2|0 1 2|1 2 3|1 2 4"},
      {"one slot", 3, 1, {}, false, "0|0|1|1|2", "0|0|1|1|2"},
      {"first choice", 4, 2, {1, 4, 2, 3}, true, "0|2", "0 1|0 2"},
  };
  for (const Story& story : stories) ExpectStory("two-queue", story);
}

class TwoQueueReference : public Reference {
 public:
  explicit TwoQueueReference(size_t capacity) : capacity_(capacity) {}
  void Begin(const Units& best_first) override { inactive_ = best_first; }
  void Observe(const Units& used) override {
    used_ = used;
    for (const uint32_t unit : used) {
      if (!Has(unit)) continue;
      std::erase(active_, unit);
      std::erase(inactive_, unit);
      active_.insert(active_.begin(), unit);
      while (!(static_cast<double>(active_.size()) <
               0.9 * static_cast<double>(capacity_))) {
        inactive_.insert(inactive_.begin(), active_.back());
        active_.pop_back();
      }
    }
  }
  void Admit(uint32_t unit) override {
    if (active_.size() + inactive_.size() == capacity_) {
      if (!DropLastOf(inactive_) && !DropLastOf(active_)) return;
    }
    inactive_.insert(inactive_.begin(), unit);
    used_.push_back(unit);
  }
  bool Has(uint32_t unit) const override {
    return std::ranges::count(active_, unit) != 0 ||
           std::ranges::count(inactive_, unit) != 0;
  }

 private:
  bool DropLastOf(Units& queue) {
    for (size_t i = queue.size(); i-- > 0;) {
      if (std::ranges::count(used_, queue[i])) continue;
      queue.erase(queue.begin() + static_cast<ptrdiff_t>(i));
      return true;
    }
    return false;
  }

  size_t capacity_;
  Units active_;
  Units inactive_;
  Units used_;
};

TEST(TwoQueuePolicy, KeepsWhatItsReferenceKeeps) {
  ExpectLikeReference("two-queue", [](size_t, size_t capacity, const auto&) {
    return std::make_unique<TwoQueueReference>(capacity);
  });
}

}  // namespace
}  // namespace thermocline::residency

#include <algorithm>
#include <map>

#include "residency/test_passes.h"

namespace thermocline::residency {
namespace {

TEST(LfuPolicy, DropsWhoWasUsedLeastOften) {
  const Story stories[] = {
      {"the rarer leaves", 5, 2, {}, false, "0|0|1|2", "0|0|0 1|0 2"},
      {"of equals the older", 5, 2, {}, false, "0|1|2", "0|0 1|1 2"},
      {"uses outside count",
       5,
       2,
       {},
       false,
       "0|1|1|2|0|3",
       "0|0 1|0 1|1 2|0 1|0 3"},
      {"first choice", 4, 2, {1, 4, 2, 3}, true, "0|2", "0 1|0 2"},
  };
  for (const Story& story : stories) ExpectStory("lfu", story);
}

class LfuReference : public Reference {
 public:
  explicit LfuReference(size_t capacity) : capacity_(capacity) {}
  void Begin(const Units& best_first) override {
    residents_ = best_first;
    for (size_t i = best_first.size(); i-- > 0;) {
      uses_[best_first[i]] = {0, ++clock_};
    }
  }
  void Observe(const Units& used) override {
    used_ = used;
    ++clock_;
    for (const uint32_t unit : used) {
      uses_[unit] = {uses_[unit].first + 1, clock_};
    }
  }
  void Admit(uint32_t unit) override {
    if (residents_.size() == capacity_) {
      const auto worse = [this](uint32_t a, uint32_t b) {
        return uses_[a] != uses_[b] ? uses_[a] < uses_[b] : a > b;
      };
      std::ranges::sort(residents_, worse);
      const auto leaves = std::ranges::find_if(residents_, [&](uint32_t other) {
        return std::ranges::count(used_, other) == 0;
      });
      if (leaves == residents_.end()) return;
      residents_.erase(leaves);
    }
    residents_.push_back(unit);
  }
  bool Has(uint32_t unit) const override {
    return std::ranges::count(residents_, unit) != 0;
  }

 private:
  size_t capacity_;
  Units residents_;
  Units used_;
  std::map<uint32_t, std::pair<int, int>> uses_;  // how often, when last
  int clock_ = 0;
};

TEST(LfuPolicy, KeepsWhatItsReferenceKeeps) {
  ExpectLikeReference("lfu", [](size_t, size_t capacity, const auto&) {
    return std::make_unique<LfuReference>(capacity);
  });
}

}  // namespace
}  // namespace thermocline::residency

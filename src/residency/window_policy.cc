#include <cstdint>
#include <vector>

#include "residency/layered_policy.h"
#include "residency/makers.h"
#include "residency/unit_lists.h"

namespace thermocline::residency {
namespace {

constexpr int64_t kWindowPasses = 5;  // as in the paper's experiments
constexpr uint32_t kWindowList = 0;   // the only one; last used at the front

class WindowLayer {
 public:
  explicit WindowLayer(const LayerExtent& extent)
      : residents_(extent),
        list_(extent.num_units, 1),
        last_use_(extent.num_units, -kWindowPasses) {}

  // Of the first choice nobody was used yet.
  void Begin(uint32_t unit) { Add(unit); }

  void Observe(const neuron::NeuronSet& used) {
    ++num_passes_;
    residents_.SetUsed(used);
    used.ForEachIn(0, used.num_neurons, [this](size_t i) {
      const auto unit = static_cast<uint32_t>(i);
      last_use_[unit] = num_passes_;
      if (!residents_.Has(unit)) return;
      list_.Remove(unit);
      list_.PushFront(kWindowList, unit);
    });
  }

  Policy::Answer Admit(uint32_t unit, const neuron::NeuronSet& pinned) {
    uint32_t leaves = kNobody;
    if (residents_.is_full()) {
      leaves = LastToLeave(list_, kWindowList, residents_, pinned);
      if (leaves == kNobody || IsInWindow(leaves)) return {};
      Drop(leaves);
    }
    Add(unit);
    residents_.MarkUsed(unit);
    last_use_[unit] = num_passes_;
    return {true, leaves};
  }

  void Drop(uint32_t unit) {
    list_.Remove(unit);
    residents_.Remove(unit);
  }
  const ResidentSet& residents() const { return residents_; }

 private:
  bool IsInWindow(uint32_t unit) const {
    return num_passes_ - last_use_[unit] < kWindowPasses;
  }
  void Add(uint32_t unit) {
    residents_.Add(unit);
    list_.PushFront(kWindowList, unit);
  }

  ResidentSet residents_;
  UnitLists list_;
  std::vector<int64_t> last_use_;  // the pass
  int64_t num_passes_ = 0;
};

}  // namespace

std::unique_ptr<Policy> MakeWindow(const Extents& layers) {
  return std::make_unique<LayeredPolicy<WindowLayer>>(layers);
}

}  // namespace thermocline::residency

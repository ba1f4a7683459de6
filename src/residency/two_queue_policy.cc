#include "residency/layered_policy.h"
#include "residency/makers.h"
#include "residency/unit_lists.h"

namespace thermocline::residency {
namespace {

// PowerInfer-2 4.2. Both queues have who was accessed last at their head. Who
// comes joins the inactive one; who is accessed again there moves to the head
// of the active one. Active units are kept below 90 % of the capacity by moving
// the tail to the inactive queue's head. A full cache discards the inactive
// queue's tail. Where the paper leaves it open: once nobody of the inactive
// queue may leave, the active queue's tail does.
constexpr uint32_t kActive = 0;
constexpr uint32_t kInactive = 1;

class TwoQueueLayer {
 public:
  explicit TwoQueueLayer(const LayerExtent& extent)
      : residents_(extent),
        queues_(extent.num_units, 2),
        is_active_(extent.num_units, false) {}

  void Begin(uint32_t unit) { Add(unit); }

  void Observe(const neuron::NeuronSet& used) {
    residents_.SetUsed(used);
    used.ForEachIn(0, used.num_neurons, [this](size_t i) {
      const auto unit = static_cast<uint32_t>(i);
      if (residents_.Has(unit)) Access(unit);
    });
  }

  Policy::Answer Admit(uint32_t unit, const neuron::NeuronSet& pinned) {
    uint32_t leaves = kNobody;
    if (residents_.is_full()) {
      leaves = LastToLeave(queues_, kInactive, residents_, pinned);
      if (leaves == kNobody) {
        leaves = LastToLeave(queues_, kActive, residents_, pinned);
      }
      if (leaves == kNobody) return {};
      Drop(leaves);
    }
    Add(unit);
    residents_.MarkUsed(unit);
    return {true, leaves};
  }

  void Drop(uint32_t unit) {
    Take(unit);
    residents_.Remove(unit);
  }
  const ResidentSet& residents() const { return residents_; }

 private:
  void Add(uint32_t unit) {
    residents_.Add(unit);
    Put(kInactive, unit);
  }

  void Access(uint32_t unit) {
    Take(unit);
    Put(kActive, unit);
    while (num_active_ * 10 >= residents_.capacity() * 9) {
      const uint32_t tail = queues_.Back(kActive);
      Take(tail);
      Put(kInactive, tail);
    }
  }

  void Take(uint32_t unit) {
    queues_.Remove(unit);
    if (is_active_[unit]) --num_active_;
    is_active_[unit] = false;
  }

  void Put(uint32_t queue, uint32_t unit) {
    queues_.PushFront(queue, unit);
    is_active_[unit] = queue == kActive;
    if (queue == kActive) ++num_active_;
  }

  ResidentSet residents_;
  UnitLists queues_;
  std::vector<bool> is_active_;  // of residents
  size_t num_active_ = 0;
};

}  // namespace

std::unique_ptr<Policy> MakeTwoQueue(const Extents& layers) {
  return std::make_unique<LayeredPolicy<TwoQueueLayer>>(layers);
}

}  // namespace thermocline::residency

// A layer's FFN as one question: how many of its neurons or experts, the most
// worth first, lie on the device.
#ifndef THERMOCLINE_PLANNER_FFN_CURVE_H_
#define THERMOCLINE_PLANNER_FFN_CURVE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "planner/problem.h"

namespace thermocline::planner {

// Its items' indices, the most worth first: bytes that the host is expected to
// read for it per byte on the device; of the same worth the first ones.
std::vector<uint32_t> RankItems(const Layer& layer);

// With n of them there, the host reads less and less for each byte more, so
// that seconds(n) falls convexly until the device takes as long as the host:
// behind that place nobody wants to be. Of neurons that are all of a size no
// others than the hottest n are better.
// Cost: sorts; 28 bytes for each neuron.
class FfnCurve {
 public:
  // Both outlive it.
  FfnCurve(const Hardware& hardware, const Layer& layer);

  size_t least() const { return least_; }  // as its rule says
  size_t most() const { return most_; }
  // The first count at which the device takes as long as the host, or most().
  size_t turn() const { return turn_; }

  double Seconds(size_t count) const;
  uint64_t Bytes(size_t count) const { return bytes_[count]; }
  // The count, at most `most`, for which seconds + price x bytes are least.
  size_t BestAt(double price, size_t most) const;
  // The count above 0 that saves the most seconds per byte, or 0.
  size_t BestFirst() const { return best_first_; }
  double FirstWorth() const;  // what those save, seconds per byte
  // The largest count, at least `from`, that takes no more bytes.
  size_t MostWithin(uint64_t bytes, size_t from) const;

  // No items, whichever they are and however many, have seconds + price x bytes
  // below this.
  double BoundAt(double price) const;

  // The items of a count, ascending.
  std::vector<uint32_t> Items(size_t count) const;
  // Items that take no more bytes and are not slower than that count: experts
  // of unlike sizes may pack better. Cost: the square of the number of items.
  std::vector<uint32_t> PackedItems(size_t count, uint64_t bytes) const;
  bool are_neurons() const { return are_neurons_; }

 private:
  struct Weighed {
    double sum = 0.0;     // what is bounded
    double device = 0.0;  // seconds of those that are better there
    double host = 0.0;    // of the others
  };
  // With the slower of device and host as `share` of the one and the rest of
  // the other, which is never more.
  struct Pack {
    std::vector<uint32_t> items;
    double seconds = 0.0;
  };
  Pack PackWith(size_t first, uint64_t bytes) const;
  Weighed Weigh(double share, double price) const;
  double LeastWithSome(double price) const;
  double HostOf(size_t item) const { return host_[item] - host_[item + 1]; }
  double DeviceOf(size_t item) const {
    return device_[item + 1] - device_[item];
  }
  double SizeOf(size_t item) const;
  void FindTurn();
  void FindBestFirst();

  const Hardware& hardware_;
  const Neurons& neurons_;
  bool are_neurons_ = true;
  std::vector<uint32_t> order_;  // [n]
  // With the first i there. [n + 1]
  std::vector<double> device_;   // bytes read by it
  std::vector<double> host_;     // by the host, of the others
  std::vector<uint64_t> bytes_;  // taken there
  size_t least_ = 0, most_ = 0, turn_ = 0, best_first_ = 0;
};

}  // namespace thermocline::planner

#endif  // THERMOCLINE_PLANNER_FFN_CURVE_H_

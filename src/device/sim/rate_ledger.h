// What of a resource's rate is given away, and when.
#ifndef THERMOCLINE_DEVICE_SIM_RATE_LEDGER_H_
#define THERMOCLINE_DEVICE_SIM_RATE_LEDGER_H_

#include <map>
#include <vector>

namespace thermocline::device {

// Times are seconds. Work that is placed first has its rate; what comes later
// takes what is left at each moment, before it too.
class RateLedger {
 public:
  explicit RateLedger(double capacity) : capacity_(capacity) {}

  double capacity() const { return capacity_; }
  double FreeAt(double time) const;
  // When FreeAt changes next, after `time`; infinity: never.
  double NextChange(double time) const;
  // Requires that so much is free from begin to end.
  void Take(double begin, double end, double rate);
  // Nothing is asked or taken before `time` any more.
  void ForgetBefore(double time);

 private:
  void Split(double time);
  void MergeAt(double time);

  double capacity_;
  std::map<double, double> used_;  // from a time to the next; before: nothing
};

struct Placed {
  double end = 0.0;
  double busy = 0.0;  // seconds of it that were worked
};

// A moment of it in which it went on at one rate.
struct PlacedPiece {
  double begin = 0.0, end = 0.0;
  double amount = 0.0;  // that was done
};

// Work of a resource that serves one at a time (`lane`; null: it needs none),
// reading over what several share (`bus`; null: nothing). It goes on at `rate`
// or what the bus has left, in the moments when the lane is free, from `begin`
// on. Takes both. Adds its pieces to `pieces`, if somebody wants them.
Placed Place(double begin, double amount, double rate, RateLedger* lane,
             RateLedger* bus, std::vector<PlacedPiece>* pieces = nullptr);

}  // namespace thermocline::device

#endif  // THERMOCLINE_DEVICE_SIM_RATE_LEDGER_H_

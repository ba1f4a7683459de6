// Slow scores over the frequency prior, with hysteresis: ours. Who has the
// lowest score leaves, for somebody clearly better. Without a profile it begins
// as lfu does.
#ifndef THERMOCLINE_RESIDENCY_SLOW_POLICY_H_
#define THERMOCLINE_RESIDENCY_SLOW_POLICY_H_

#include <memory>
#include <vector>

#include "residency/policy.h"

namespace thermocline::residency {

// The score of a unit is the share of passes that use it, where a pass counts
// half as much as one half_life passes later; it begins as the frequency.
//
// Chosen by the traces of docs/perf/residency.md. Text wants 16 passes: stories
// reuse their words. Where frequencies are all there is, 64 are better, since a
// few passes say little of them. 32 miss at most 3 % more than the best of
// either. The margin admits a quarter to a third less for 0.5 % more misses. A
// second, faster part in the score saved less than 5 % of the misses for three
// times the admissions; scores that do not fade alike would need all units to
// be looked at in each pass.
//
// Where the text changes, the past says little: from topic to topic fast fading
// brings 3.4 % of what fires at 10 % of room, and within one it stays away.
struct SlowOptions {
  double half_life = 32.0;  // passes, >= 1
  // A newcomer's score has to be so much better, as a share, than that of who
  // leaves for it.
  double margin = 0.05;
  // Of what a pass uses a share is resident. While that of the last passes is
  // below `change` times the usual one, scores fade by half_life_changing.
  double change = 0.75;             // 0: never, to 1
  double half_life_changing = 2.0;  // passes, >= 1
};

std::unique_ptr<Policy> MakeSlow(const std::vector<LayerExtent>& layers,
                                 const SlowOptions& options);

}  // namespace thermocline::residency

#endif  // THERMOCLINE_RESIDENCY_SLOW_POLICY_H_

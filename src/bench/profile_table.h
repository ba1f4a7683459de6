// Where the time of a test went, as a table for people.
#ifndef THERMOCLINE_BENCH_PROFILE_TABLE_H_
#define THERMOCLINE_BENCH_PROFILE_TABLE_H_

#include <cstdint>
#include <string>

#include "compute/stage_times.h"

namespace thermocline::bench {

// A Markdown table with a row per stage that ran, and below it how often the
// threads met per layer. "other" is what is in no stage. Times are per batch,
// which is a token in decoding. Joins of layers are those of all stages but
// embed and head.
std::string FormatProfile(const compute::StageTimes& profile,
                          size_t num_layers);

}  // namespace thermocline::bench

#endif  // THERMOCLINE_BENCH_PROFILE_TABLE_H_

// What tests of Launch's overloads (launch.h) share.
#ifndef THERMOCLINE_KERNELS_CUDA_TEST_LAUNCH_H_
#define THERMOCLINE_KERNELS_CUDA_TEST_LAUNCH_H_

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/test_mutants.h"
#include "kernels/cuda/testing.h"

namespace thermocline::cuda {

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

inline std::vector<float> RandomFloats(Random& random, size_t count,
                                       float limit = 1.0f) {
  std::vector<float> values(count);
  for (float& value : values) value = random.Uniform(-limit, limit);
  return values;
}

inline bool HasNan(std::span<const float> values) {
  for (const float value : values) {
    if (std::isnan(value)) return true;
  }
  return false;
}

// Row `row` of rows of n.
template <typename T>
std::vector<T> RowOf(const std::vector<T>& values, size_t row, size_t n) {
  return {values.begin() + static_cast<ptrdiff_t>(row * n),
          values.begin() + static_cast<ptrdiff_t>((row + 1) * n)};
}

// What `run` returns, under several orders of threads, is always the same.
template <typename Run>
void ExpectSameBits(uint64_t num_schedules, const Run& run) {
  std::vector<uint32_t> first;
  ForEachSchedule(num_schedules, [&](uint64_t seed) {
    std::vector<uint32_t> bits;
    for (const float value : run()) {
      bits.push_back(std::bit_cast<uint32_t>(value));
    }
    ASSERT_EQ(TakeFault(), "") << "seed " << seed;
    if (first.empty()) first = bits;
    EXPECT_EQ(bits, first) << "seed " << seed;
  });
}

#ifdef TC_CUDA_ON_HOST

// is_right(launch): whether a run with this launch fails nowhere and comes to
// what it has to. Of the right one it does; of each mutant, and without any of
// the right one's num_calls barriers and waits, it does not.
template <typename Args, typename IsRight>
void ExpectAllNoticed(std::span<const Mutant<LaunchFn<Args>>> mutants,
                      size_t num_calls, uint64_t first_seed, uint64_t num_seeds,
                      const IsRight& is_right) {
  const LaunchFn<Args> right = Launch;
  ExpectMutantsNoticed(
      first_seed, num_seeds, right, mutants, num_calls,
      [&](LaunchFn<Args> launch) { return !is_right(launch); });
}

// Runs `run` with counted traffic.
template <typename Run>
void CountSectors(const Run& run) {
  cuda_on_host::Options options;
  options.count_sectors = true;
  cuda_on_host::SetOptions(options);
  run();
  ASSERT_EQ(TakeFault(), "");
}

#endif  // TC_CUDA_ON_HOST

}  // namespace thermocline::cuda

#endif  // THERMOCLINE_KERNELS_CUDA_TEST_LAUNCH_H_

// What a device and its link to the host give: the figures that say where
// weights should lie, and what moving them costs.
#ifndef THERMOCLINE_PROBE_DEVICE_RATES_H_
#define THERMOCLINE_PROBE_DEVICE_RATES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/status.h"
#include "device/device.h"

namespace thermocline::probe {

struct DeviceRatesOptions {
  std::function<double()> now;  // seconds; none: the machine's clock
  int num_rounds = 10;
  // No round but the first three begins later than this.
  double most_seconds = 2.0;
  // Of the device's memory; less where a quarter of what is free is less.
  uint64_t most_bytes = uint64_t{512} << 20;
};

// Copies of one size after the other, in units of 1e9 bytes per second.
struct BlockRate {
  size_t block_bytes;
  double up_gb_per_s;
  double down_gb_per_s;
};

// Medians of the rounds; 1 GB = 1e9 bytes.
struct DeviceRates {
  int num_rounds = 0;
  uint64_t device_bytes = 0;  // memory that it took meanwhile
  uint64_t pinned_bytes = 0;

  uint64_t read_bytes = 0;     // of a matrix
  double read_gb_per_s = 0.0;  // by products with one row of it all
  double copy_gb_per_s = 0.0;  // within the device, read and written

  std::vector<BlockRate> blocks;  // over the link, from small to large

  // Records at scattered places of pinned memory, to the device.
  size_t record_bytes = 0;
  size_t num_records = 0;
  double gather_gb_per_s = 0.0;    // a copy for each
  double in_place_gb_per_s = 0.0;  // read by a sparse FFN where they lie

  // A row's copy up, one small operation, its copy down, waiting.
  double round_trip_seconds = 0.0;
};

// Measures all of it in turns, after a round that does not count. Nothing else
// uses the device meanwhile. Errors of the device; kResourceExhausted, with
// what is free, also where there is too little memory to measure with.
// Cost: at most twice most_seconds, and what the slowest round takes.
Result<DeviceRates> MeasureDevice(device::Device& device,
                                  const DeviceRatesOptions& options);

}  // namespace thermocline::probe

#endif  // THERMOCLINE_PROBE_DEVICE_RATES_H_

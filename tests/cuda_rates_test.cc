// What is measured of a GPU, on the one that the host plays: every access of
// its operations is looked at.
#include <gtest/gtest.h>

#include "cuda_on_host/control.h"
#include "device/cuda/find_cuda.h"
#include "probe/device_rates.h"

namespace thermocline {
namespace {

TEST(CudaRates, AreMeasuredWithoutAFault) {
  const auto device = device::OpenCuda(0);
  ASSERT_TRUE(device.has_value()) << device.error().message;
  const auto rates = probe::MeasureDevice(
      **device, {.num_rounds = 1, .most_bytes = uint64_t{1} << 20});
  EXPECT_EQ(cuda_on_host::TakeFault(), "");
  ASSERT_TRUE(rates.has_value()) << rates.error().message;
  EXPECT_EQ(rates->read_bytes, uint64_t{1} << 20);
  EXPECT_EQ(rates->blocks.size(), 5u);  // to 1 MiB
  EXPECT_EQ(rates->record_bytes, 6144u);
  EXPECT_EQ(rates->num_records, 42u);
  EXPECT_EQ(rates->num_rounds, 1);
  EXPECT_GT(rates->round_trip_seconds, 0.0);
  EXPECT_EQ((*device)->allocated_bytes(device::MemoryKind::kDevice), 0u);
  EXPECT_EQ((*device)->allocated_bytes(device::MemoryKind::kPinned), 0u);
}

}  // namespace
}  // namespace thermocline

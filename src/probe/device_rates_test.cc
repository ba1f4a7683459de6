#include "probe/device_rates.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "device/sim/sim_device.h"
#include "device/sim/test_machine.h"

namespace thermocline::probe {
namespace {

using device::Machine;
using device::SimDevice;
using device::SimOptions;

Result<DeviceRates> MeasureSim(const Machine& machine,
                               const SimOptions& sim_options,
                               DeviceRatesOptions options) {
  const std::unique_ptr<SimDevice> sim = device::MakeSim(machine, sim_options);
  options.now = [&] { return sim->now(); };
  auto rates = MeasureDevice(*sim, options);
  EXPECT_EQ(sim->allocated_bytes(device::MemoryKind::kDevice), 0u);
  EXPECT_EQ(sim->allocated_bytes(device::MemoryKind::kPinned), 0u);
  return rates;
}

void ExpectWithinOnePercent(double got, double want, const std::string& what) {
  EXPECT_NEAR(got, want, 0.01 * want) << what;
}

// In GB/s, of copies that each take the latency.
double CopyRate(const Machine& machine, double rate, size_t num_bytes) {
  const auto bytes = static_cast<double>(num_bytes);
  return bytes / (machine.copy_latency + bytes / rate) / 1e9;
}

void ExpectStatedRates(const DeviceRates& rates, const Machine& machine) {
  ExpectWithinOnePercent(rates.read_gb_per_s, machine.device_rate / 1e9,
                         "read");
  ExpectWithinOnePercent(rates.copy_gb_per_s, machine.device_rate / 1e9,
                         "copied");
  for (const BlockRate& block : rates.blocks) {
    const std::string what = std::to_string(block.block_bytes);
    ExpectWithinOnePercent(
        block.up_gb_per_s,
        CopyRate(machine, machine.up_rate, block.block_bytes), "up " + what);
    ExpectWithinOnePercent(
        block.down_gb_per_s,
        CopyRate(machine, machine.down_rate, block.block_bytes),
        "down " + what);
  }
  ExpectWithinOnePercent(rates.gather_gb_per_s,
                         CopyRate(machine, machine.up_rate, rates.record_bytes),
                         "gathered");
  ExpectWithinOnePercent(rates.in_place_gb_per_s,
                         CopyRate(machine, machine.up_rate,
                                  rates.record_bytes * rates.num_records),
                         "in place");
  // Four floats each way; the operation reads eight and writes four.
  ExpectWithinOnePercent(rates.round_trip_seconds,
                         2 * machine.copy_latency + 16 / machine.up_rate +
                             16 / machine.down_rate + machine.launch_latency +
                             48 / machine.device_rate + machine.sync_latency,
                         "round trip");
}

TEST(DeviceRatesTest, OfStatedMachinesAreWhatIsStated) {
  for (const char* name : {"rtx4090-ddr5", "rtx2080ti-ddr4"}) {
    SCOPED_TRACE(name);
    const auto machine = device::ReadMachine(std::string(TC_SOURCE_DIR) +
                                             "/machines/" + name + ".json");
    ASSERT_TRUE(machine.has_value()) << machine.error().message;
    const auto rates = MeasureSim(*machine, {.time_only = true}, {});
    ASSERT_TRUE(rates.has_value()) << rates.error().message;
    EXPECT_EQ(rates->num_rounds, 10);
    EXPECT_EQ(rates->read_bytes, 512u << 20);
    EXPECT_LT(rates->device_bytes, 514u << 20);
    EXPECT_EQ(rates->pinned_bytes, 64u << 20);
    ASSERT_EQ(rates->blocks.size(), 8u);
    EXPECT_EQ(rates->blocks.front().block_bytes, 4096u);
    EXPECT_EQ(rates->blocks.back().block_bytes, 64u << 20);
    EXPECT_EQ(rates->num_records, 1024u);
    EXPECT_EQ(rates->record_bytes, 6144u);
    ExpectStatedRates(*rates, *machine);
  }
}

// With data, too, and what a small device has: a quarter of it.
TEST(DeviceRatesTest, OfASmallDeviceTakeLessMemory) {
  const Machine machine = device::TestMachine();
  const auto rates = MeasureSim(machine, {}, {.num_rounds = 1});
  ASSERT_TRUE(rates.has_value()) << rates.error().message;
  EXPECT_EQ(rates->read_bytes, machine.memory_bytes / 4);
  EXPECT_LT(rates->device_bytes, machine.memory_bytes / 3);
  EXPECT_EQ(rates->blocks.back().block_bytes, machine.memory_bytes / 4);
  ExpectStatedRates(*rates, machine);
  const auto timed = MeasureSim(machine, {.time_only = true},
                                {.num_rounds = 1, .most_bytes = 1 << 20});
  ASSERT_TRUE(timed.has_value()) << timed.error().message;
  EXPECT_EQ(timed->read_bytes, 1u << 20);
  EXPECT_GT(timed->num_records, 40u);
}

TEST(DeviceRatesTest, EndSoonOnASlowDevice) {
  const auto rates = MeasureSim(device::TestMachine(), {.time_only = true},
                                {.most_seconds = 0.0});
  ASSERT_TRUE(rates.has_value()) << rates.error().message;
  EXPECT_EQ(rates->num_rounds, 3);
}

TEST(DeviceRatesTest, FailuresAreTheDevices) {
  Machine tiny = device::TestMachine();
  tiny.memory_bytes = 3 << 20;
  const auto small = MeasureSim(tiny, {}, {});
  ASSERT_FALSE(small.has_value());
  EXPECT_EQ(small.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(small.error().message.find("sim0: too little memory"),
            std::string::npos);
  for (const uint64_t call : {1, 2, 3, 9, 20, 400, 900, 4000, 7000}) {
    const auto lost = MeasureSim(device::TestMachine(),
                                 {.time_only = true, .lose_at = call}, {});
    ASSERT_FALSE(lost.has_value()) << call;
    EXPECT_EQ(lost.error().message, "sim0: device lost");
  }
}

}  // namespace
}  // namespace thermocline::probe

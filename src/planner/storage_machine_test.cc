#include "planner/storage_machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "planner/test_storage.h"

namespace thermocline::planner {
namespace {

using ::testing::HasSubstr;

TEST(StorageMachine, ReadsBetweenWhatWasMeasured) {
  const StorageMachine phone = TestPhone();
  struct Row {
    double block, depth, reads_per_s;
  };
  for (const Row& row :
       {Row{4096, 1, 10e3}, Row{4096, 8, 80e3}, Row{1 << 20, 32, 16e3},
        // Halfway on logarithmic scales.
        Row{65536, 1, std::sqrt(10e3 * 500)}, Row{4096, 16, 160e3},
        // Beyond: bytes a second stay, or reads a second.
        Row{2 << 20, 1, 250}, Row{1024, 1, 10e3}, Row{4096, 100, 320e3}}) {
    EXPECT_NEAR(ReadsPerSecond(phone, true, row.block, row.depth),
                row.reads_per_s, 1e-6 * row.reads_per_s)
        << row.block << " " << row.depth;
  }
  EXPECT_EQ(ReadSeconds(phone, true, 0, 0), 0.0);
  // One takes what one takes; eight together not longer.
  EXPECT_NEAR(ReadSeconds(phone, true, 1, 4096), 1e-4, 1e-9);
  EXPECT_NEAR(ReadSeconds(phone, true, 8, 8 * 4096), 1e-4, 1e-9);
  EXPECT_NEAR(ReadSeconds(phone, true, 0.5, 2048), 0.5e-4, 1e-9);
}

TEST(StorageMachine, MemoryIsOnALineBetweenThreads) {
  const StorageMachine phone = TestPhone();
  const double expected[] = {
      20e9, 20e9 + 20e9 / 3, 20e9 + 40e9 / 3, 40e9, 42.5e9, 45e9, 47.5e9, 50e9,
      50e9};
  for (uint32_t threads = 1; threads <= 9; ++threads) {
    EXPECT_NEAR(MemoryBytesPerSecond(phone, threads), expected[threads - 1], 1);
  }
}

TEST(StorageMachine, SaysWhatIsWrong) {
  EXPECT_TRUE(CheckMachine(TestPhone()).has_value());
  struct Row {
    std::function<void(StorageMachine&)> spoil;
    const char* message;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Row rows[] = {
      {[](auto& m) { m.cores.clear(); }, "at least one core"},
      {[](auto& m) { m.cores[1].cpu = 0; }, "CPU 0 is there twice"},
      {[](auto& m) { m.cores[2].row_rate = 0; }, "CPU 2: its rates"},
      {[nan](auto& m) { m.cores[2].read_share = nan; }, "CPU 2: its rates"},
      {[](auto& m) { m.memory.clear(); }, "no rate of the memory"},
      {[](auto& m) { m.memory[0].bytes_per_s = -1; }, "memory of 1 threads"},
      {[](auto& m) { m.reads[0].depth = 0; }, "reads of 4096 bytes, 0 under"},
      {[](auto& m) {
         std::erase_if(m.reads, [](const ReadRate& r) { return r.is_random; });
       },
       "no rate of random reads"},
      {[](auto& m) { m.least_io_cores = 4; }, "the least I/O cores"},
      {[](auto& m) { m.more_io_cores = {0.0}; }, "what more I/O cores reach"},
  };
  for (const Row& row : rows) {
    StorageMachine machine = TestPhone();
    row.spoil(machine);
    const Status checked = CheckMachine(machine);
    ASSERT_FALSE(checked.has_value()) << row.message;
    EXPECT_THAT(checked.error().message, HasSubstr(row.message));
  }
}

}  // namespace
}  // namespace thermocline::planner

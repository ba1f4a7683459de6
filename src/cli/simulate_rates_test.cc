#include "cli/simulate_rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/test_folder.h"
#include "planner/storage_files.h"

namespace thermocline::cli {
namespace {

using residency::Misses;
using ::testing::HasSubstr;

TEST(SimulateRatesTest, StatedOnesAreNamed) {
  const auto storage = RatesOf({}, {});
  ASSERT_TRUE(storage);
  EXPECT_EQ(storage->misses, Misses::kRead);
  EXPECT_THAT(storage->name, HasSubstr("stated"));
  const auto card = RatesOf({}, Misses::kComputed);
  ASSERT_TRUE(card);
  const residency::MoveRates rates = card->Of(12e3, 554e6, 10);
  EXPECT_DOUBLE_EQ(rates.per_move, 1e-6);
  EXPECT_DOUBLE_EQ(rates.other, 1e-4);
  EXPECT_GT(rates.per_miss, rates.per_hit);
}

TEST(SimulateRatesTest, MachinesWithDevicesAndWithStorage) {
  const std::string card =
      std::string(TC_SOURCE_DIR) + "/machines/rtx2080ti-ddr4.json";
  const auto device = RatesOf(card, {});
  ASSERT_TRUE(device) << device.error().message;
  EXPECT_EQ(device->misses, Misses::kComputed);
  EXPECT_DOUBLE_EQ(device->link, 12e9);
  EXPECT_FALSE(RatesOf(card, Misses::kRead));

  const os::TestFolder folder;
  planner::StorageMachine machine = {.name = "m"};
  machine.cores = {{.cpu = 0, .row_rate = 1e9, .prompt_rate = 1e10}};
  machine.memory = {{1, 20e9}};
  machine.reads = {{true, 16384, 64, 1e5}, {false, 1 << 20, 8, 3000}};
  ASSERT_TRUE(planner::WriteStorageMachine(machine, folder / "m.json"));
  const auto storage = RatesOf(folder / "m.json", {});
  ASSERT_TRUE(storage) << storage.error().message;
  EXPECT_EQ(storage->misses, Misses::kRead);
  EXPECT_DOUBLE_EQ(storage->fast, 20e9);
  EXPECT_DOUBLE_EQ(storage->slow, 16384e5);
  EXPECT_FALSE(RatesOf(folder / "m.json", Misses::kComputed));
  EXPECT_FALSE(RatesOf(folder / "none", {}));
}

}  // namespace
}  // namespace thermocline::cli

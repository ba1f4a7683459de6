#include "cli/storage_host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "cli/test_main.h"
#include "os/topology.h"

namespace thermocline::cli {
namespace {

TEST(StorageHost, MeasuresAMachineToPlanFor) {
  const std::string path = TempPath("host.bin");
  std::ofstream(path, std::ios::binary) << std::string(4 << 20, 'x');
  const auto machine = MeasureStorageHost({.path = path,
                                           .dtype = DType::kQ4_0,
                                           .seconds = 0.002,
                                           .memory_bytes = 4 << 20});
  std::remove(path.c_str());
  ASSERT_TRUE(machine.has_value()) << machine.error().message;
  EXPECT_TRUE(planner::CheckMachine(*machine).has_value());
  EXPECT_EQ(machine->name, StorageHostName());
  EXPECT_EQ(machine->cores.size(),
            static_cast<size_t>(os::ReadTopology().num_cores));
  EXPECT_EQ(machine->most_io_cores, 0u);
  EXPECT_GT(machine->read_cpu_seconds, 0.0);
}

TEST(StorageHost, NeedsAFileOfABlock) {
  const std::string path = TempPath("small_host.bin");
  std::ofstream(path) << "x";
  const auto machine = MeasureStorageHost({.path = path, .seconds = 0.001});
  std::remove(path.c_str());
  ASSERT_FALSE(machine.has_value());
  EXPECT_THAT(machine.error().message, ::testing::HasSubstr(path));
}

}  // namespace
}  // namespace thermocline::cli

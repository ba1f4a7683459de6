#include "probe/memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace thermocline::probe {
namespace {

void WriteFile(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(
      std::filesystem::path(path).parent_path());
  std::ofstream(path) << text;
}

void WriteCache(const std::string& root, int cpu, int idx,
                const std::string& level, const std::string& type,
                const std::string& size, const std::string& cpus) {
  const std::string dir = root + "/devices/system/cpu/cpu" +
                          std::to_string(cpu) + "/cache/index" +
                          std::to_string(idx) + "/";
  WriteFile(dir + "level", level + "\n");
  WriteFile(dir + "type", type + "\n");
  WriteFile(dir + "size", size + "\n");
  WriteFile(dir + "shared_cpu_list", cpus + "\n");
}

std::string TempRoot(const std::string& name) {
  return ::testing::TempDir() + "probe_" + name + "_" +
         std::to_string(::getpid());
}

TEST(MeasureSequentialReadTest, GivesPlausibleRatesForOddSizesAndThreads) {
  for (const int threads : {1, 2, 3}) {
    for (const size_t num_bytes :
         {size_t{8}, size_t{8 * 7}, size_t{4099}, size_t{(1 << 20) + 24}}) {
      const Result<ReadRate> rate =
          MeasureSequentialRead(threads, num_bytes, 3);
      ASSERT_TRUE(rate.has_value()) << rate.error().message;
      EXPECT_GT(rate->gb_per_s_median, 0.0);
      EXPECT_GE(rate->gb_per_s_best, rate->gb_per_s_median);
    }
  }
}

TEST(MeasureSequentialReadTest, RefusesWhatMeasuresNothing) {
  for (const auto& rate :
       {MeasureSequentialRead(1, 1 << 20, 0), MeasureSequentialRead(1, 0, 3),
        MeasureSequentialRead(-1, 1 << 20, 3)}) {
    ASSERT_FALSE(rate.has_value());
    EXPECT_EQ(rate.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(LastLevelCacheBytesTest, SumsTheInstancesOfTheHighestLevel) {
  const std::string root = TempRoot("two_l3");
  for (int cpu = 0; cpu < 4; ++cpu) {
    const std::string self = std::to_string(cpu);
    const std::string half = cpu < 2 ? "0-1" : "2-3";
    WriteCache(root, cpu, 0, "1", "Data", "32K", self);
    WriteCache(root, cpu, 1, "1", "Instruction", "64K", self);
    WriteCache(root, cpu, 2, "2", "Unified", "1M", self);
    WriteCache(root, cpu, 3, "3", "Unified", "32768K", half);
  }
  EXPECT_EQ(LastLevelCacheBytes(root), uint64_t{64} << 20);
  std::filesystem::remove_all(root);
}

TEST(LastLevelCacheBytesTest, IsZeroWhenUnknown) {
  EXPECT_EQ(LastLevelCacheBytes(TempRoot("absent")), 0u);
  const std::string root = TempRoot("nonsense");
  WriteCache(root, 0, 0, "1", "Data", "many", "0");
  EXPECT_EQ(LastLevelCacheBytes(root), 0u);
  WriteCache(root, 0, 0, "1", "Data", "18446744073709551615G", "0");
  EXPECT_EQ(LastLevelCacheBytes(root), 0u);
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace thermocline::probe

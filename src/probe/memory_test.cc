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

TEST(ReadProbeTest, GivesPlausibleRatesForOddSizesAndThreads) {
  for (const int threads : {1, 2, 3}) {
    for (const size_t num_bytes :
         {size_t{8 * 7}, size_t{4099}, size_t{(1 << 20) + 24}}) {
      auto probe = ReadProbe::Create(threads, num_bytes);
      ASSERT_TRUE(probe.has_value()) << probe.error().message;
      EXPECT_EQ(probe->num_threads(), threads);
      EXPECT_EQ(probe->num_bytes(), num_bytes / 8 * 8);
      for (int i = 0; i < 2; ++i) {
        const Result<double> rate = probe->Measure(2);
        ASSERT_TRUE(rate.has_value()) << rate.error().message;
        EXPECT_GT(*rate, 0.0);
      }
    }
  }
}

TEST(ReadProbeTest, ReadsRowsApartOfOddMemory) {
  for (const int threads : {1, 2, 3}) {
    auto probe = ReadProbe::Create(threads, (1 << 20) + 24);
    ASSERT_TRUE(probe.has_value()) << probe.error().message;
    for (const size_t row_bytes : {64, 1152, 4096}) {
      const Result<double> rate = probe->MeasureRowsApart(row_bytes, 2);
      ASSERT_TRUE(rate.has_value()) << rate.error().message;
      EXPECT_GT(*rate, 0.0);
    }
    // The other way of reading finds the sums again.
    EXPECT_TRUE(probe->Measure(1).has_value());
  }
}

TEST(ReadProbeTest, RefusesRowsThatAreNoLinesOrTooLong) {
  auto probe = ReadProbe::Create(2, 1 << 20);
  ASSERT_TRUE(probe.has_value());
  for (const size_t row_bytes :
       {size_t{0}, size_t{100}, size_t{1} << 20, SIZE_MAX - 63}) {
    const Result<double> rate = probe->MeasureRowsApart(row_bytes, 1);
    ASSERT_FALSE(rate.has_value()) << row_bytes;
    EXPECT_EQ(rate.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(rate.error().message.find(std::to_string(row_bytes)),
              std::string::npos);
  }
  EXPECT_EQ(probe->MeasureRowsApart(64, 0).error().code,
            ErrorCode::kInvalidArgument);
}

TEST(ReadProbeTest, RefusesWhatMeasuresNothing) {
  for (const auto& probe : {ReadProbe::Create(1, 0), ReadProbe::Create(3, 16),
                            ReadProbe::Create(-1, 1 << 20)}) {
    ASSERT_FALSE(probe.has_value());
    EXPECT_EQ(probe.error().code, ErrorCode::kInvalidArgument);
  }
  auto probe = ReadProbe::Create(1, 64);
  ASSERT_TRUE(probe.has_value());
  EXPECT_EQ(probe->Measure(0).error().code, ErrorCode::kInvalidArgument);
}

TEST(ProbeSizeForTest, FollowsTheWorkingSetWithinAQuarterOfTheRam) {
  constexpr uint64_t kMiB = 1 << 20;
  const auto is = [](ProbeSize size, uint64_t num_bytes, bool is_capped) {
    return size.num_bytes == num_bytes && size.is_capped == is_capped;
  };
  EXPECT_TRUE(is(ProbeSizeFor(260 * kMiB, 16384 * kMiB), 2080 * kMiB, false));
  EXPECT_TRUE(
      is(ProbeSizeFor(260 * kMiB, 16384 * kMiB, kMiB), 520 * kMiB, false));
  EXPECT_TRUE(is(ProbeSizeFor(260 * kMiB, 16384 * kMiB, 700 * kMiB), 700 * kMiB,
                 false));
  EXPECT_TRUE(is(ProbeSizeFor(16 * kMiB, 16384 * kMiB), 256 * kMiB, false));
  EXPECT_TRUE(is(ProbeSizeFor(0, 16384 * kMiB), 1024 * kMiB, false));
  EXPECT_TRUE(is(ProbeSizeFor(0, 16384 * kMiB, 700 * kMiB), 700 * kMiB, false));
  EXPECT_TRUE(is(ProbeSizeFor(260 * kMiB, 1024 * kMiB), 256 * kMiB, true));
  // More than twice the cache, but not the eight times that show memory alone.
  EXPECT_TRUE(is(ProbeSizeFor(260 * kMiB, 4096 * kMiB), 1024 * kMiB, true));
  EXPECT_TRUE(is(ProbeSizeFor(260 * kMiB, 0), kMiB, true));
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

#include "probe/storage_rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "os/test_folder.h"

namespace thermocline::probe {
namespace {

using ::testing::HasSubstr;

StorageRatesOptions SmallStorage() {
  return {.reader = "pread",
          .depths = {1, 4},
          .block_bytes = {4096, 65536},
          .range_bytes = {1 << 20, 3 << 20, uint64_t{1} << 40},
          .seconds = 0.002};
}

TEST(StorageRatesTest, RowsAreBlocksOrdersAndRangesAtEachDepth) {
  const os::TestFolder folder;
  const std::string path = folder.Write("file", std::string(4 << 20, 'x'));
  std::set<std::string> what;
  StorageRatesOptions options = SmallStorage();
  options.progress = [&](std::string_view doing, uint64_t num_done,
                         uint64_t num_total) {
    what.insert(std::string(doing));
    EXPECT_LT(num_done, num_total);
    EXPECT_EQ(num_total, 10u);
  };
  const auto rates = MeasureStorage(path, options);
  ASSERT_TRUE(rates.has_value()) << rates.error().message;
  EXPECT_EQ(rates->reader, "pread");
  EXPECT_EQ(rates->file_bytes, uint64_t{4} << 20);
  EXPECT_EQ(what, std::set<std::string>{"reading"});
  std::string rows;
  for (const StorageRate& rate : rates->rates) {
    rows +=
        fmt::format("{}{}/{}x{} ", rate.is_random ? "r" : "s",
                    rate.range_bytes >> 20, rate.block_bytes >> 10, rate.depth);
    EXPECT_GE(rate.num_reads, 1u);
    EXPECT_GE(rate.seconds, 0.002);
    EXPECT_LE(rate.p50_us, rate.p99_us);
    EXPECT_GT(rate.mean_us, 0.0);
    EXPECT_NEAR(rate.mb_per_s(),
                1e-6 * static_cast<double>(rate.num_reads * rate.block_bytes) /
                    rate.seconds,
                1e-6 * rate.mb_per_s());
  }
  // 1 TiB is more than the file has.
  EXPECT_EQ(rows,
            "s3/4x1 s3/64x1 r3/4x1 r3/64x1 r1/4x1 "
            "s3/4x4 s3/64x4 r3/4x4 r3/64x4 r1/4x4 ");
}

TEST(StorageRatesTest, AFileThatIsLessThanAnyRangeIsTheRange) {
  const os::TestFolder folder;
  const std::string path = folder.Write("file", std::string(70'000, 'x'));
  StorageRatesOptions options = SmallStorage();
  options.reader.clear();
  const auto rates = MeasureStorage(path, options);
  ASSERT_TRUE(rates.has_value()) << rates.error().message;
  EXPECT_EQ(rates->rates.size(), 8u);
  EXPECT_EQ(rates->rates[0].range_bytes, 70'000u);
}

// The reader says for itself whether it does.
TEST(StorageRatesTest, ReadsToRegisteredMemory) {
  const os::TestFolder folder;
  const std::string path = folder.Write("file", std::string(4 << 20, 'x'));
  StorageRatesOptions options = SmallStorage();
  options.reader.clear();
  options.registered = true;
  const auto rates = MeasureStorage(path, options);
  ASSERT_TRUE(rates.has_value()) << rates.error().message;
  if (rates->reader.starts_with("io_uring") && rates->is_direct()) {
    EXPECT_THAT(rates->reader, HasSubstr("registered"));
  }
  EXPECT_GE(rates->rates.front().num_reads, 1u);
}

TEST(StorageRatesTest, RefusesWhatCannotBeMeasured) {
  const os::TestFolder folder;
  const std::string small = folder.Write("small", std::string(65'535, 'x'));
  const auto measure = [](const std::string& path,
                          const StorageRatesOptions& options) {
    const auto rates = MeasureStorage(path, options);
    return rates.has_value() ? "" : rates.error().message;
  };
  EXPECT_THAT(measure(small, SmallStorage()),
              HasSubstr(small + ": has 65535 bytes, less than one block of"));
  EXPECT_THAT(measure(folder / "absent", SmallStorage()), HasSubstr("absent"));
  StorageRatesOptions options = SmallStorage();
  options.reader = "fake";
  EXPECT_THAT(measure(small, options), HasSubstr("\"fake\" is not a reader"));
  options.depths = {};
  EXPECT_THAT(measure(small, options), HasSubstr("at least 1"));
}

}  // namespace
}  // namespace thermocline::probe

#include "storage/system_readers.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/test_folder.h"
#include "storage/test_reader.h"

namespace thermocline::storage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A folder's descriptor: all reads fail.
std::vector<OpenFile> Unreadable(const os::TestFolder& folder) {
  std::vector<OpenFile> files(2);
  files[0].path = "broken disk";
  files[0].fd = os::UniqueFd(open(folder.path().c_str(), O_RDONLY));
  files[0].num_bytes = 1 << 20;
  files[0].is_device = true;  // nothing that could change
  const std::string good = folder.Write("good", std::string(4096, 'x'));
  files[1] = std::move(OpenForReads(good, false)).value();
  return files;
}

using Maker = Result<std::unique_ptr<BlockReader>> (*)(std::vector<OpenFile>&,
                                                       const ReaderOptions&);

class SystemReadersTest : public ::testing::TestWithParam<Maker> {};

TEST_P(SystemReadersTest, WhatTheSystemRefusesIsTheReadsOwnError) {
  const os::TestFolder folder;
  std::vector<OpenFile> files = Unreadable(folder);
  const auto reader = GetParam()(files, {.depth = 2});
  if (!reader.has_value()) GTEST_SKIP() << reader.error().message;
  std::vector<std::byte> memory(10 * 4096);
  std::vector<Read> reads;
  for (uint32_t i = 0; i < 10; ++i) {
    const bool is_good = i % 2 == 1;
    reads.push_back({is_good ? 1u : 0u, is_good ? 0 : i * uint64_t{8192}, 4096,
                     memory.data() + i * 4096, i});
  }
  (*reader)->Submit(reads);
  const std::vector<Done> all = ReapAll(**reader);
  ASSERT_EQ(all.size(), 10u);
  for (const Done& done : all) {
    ASSERT_EQ(done.status.has_value(), done.tag % 2 == 1);
    if (done.status.has_value()) continue;
    EXPECT_EQ(done.status.error().code, ErrorCode::kIo);
    EXPECT_THAT(done.status.error().message,
                AllOf(HasSubstr("broken disk: cannot read 4096 bytes at " +
                                std::to_string(done.tag * 8192) + ": "),
                      HasSubstr("directory")));
  }
}

INSTANTIATE_TEST_SUITE_P(Makers, SystemReadersTest,
                         ::testing::Values(&MakePreadReader, &MakeUringReader));

}  // namespace
}  // namespace thermocline::storage

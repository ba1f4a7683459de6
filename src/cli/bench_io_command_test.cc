#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/test_main.h"
#include "os/test_folder.h"
#include "os/topology.h"

namespace thermocline::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

MainResult RunSmallIo(std::vector<std::string> args) {
  args.insert(args.begin(), {"bench", "io", "--seconds", "0.001"});
  return RunMain(args);
}

TEST(BenchIoCommandTest, ReadsAFileWithoutAModel) {
  const os::TestFolder folder;
  const std::string path = folder.Write("file", std::string(2 << 20, 'x'));
  const MainResult result =
      RunSmallIo({path, "--depth", "1,3", "--reader", "pread"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(
      result.out,
      AllOf(StartsWith("| order "),
            HasSubstr("\n| sequential |     2 MiB |    4 KiB |     1 |"),
            HasSubstr("\n| random     |     2 MiB |    2 MiB |     3 |"),
            HasSubstr("\n" + path + ", 2.00 MiB, read by pread "),
            HasSubstr("build: thermocline " TC_VERSION ", ")));
}

TEST(BenchIoCommandTest, MakesAFileInAFolderAndLeavesNothing) {
  const os::TestFolder folder;
  const MainResult result = RunSmallIo(
      {folder.path(), "--size", "2MiB", "--depth", "2", "-o", "json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("\"is_made\": true"),
                                HasSubstr("\"file_bytes\": 2097152"),
                                HasSubstr("\"path\": \"" + folder.path())));
  EXPECT_EQ(folder.num_entries(), 0);
}

TEST(BenchIoCommandTest, DrawsAndStaysOnACpu) {
  const os::TestFolder folder;
  const std::string path = folder.Write("file", std::string(2 << 20, 'x'));
  const std::string cpu = std::to_string(os::ReadTopology().cpus.front().id);
  const MainResult result = RunSmallIo(
      {path, "--depth", "1,3", "--cpu", cpu, "--svg", folder / "io.svg"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr(", CPU " + cpu + "\n"));
  EXPECT_THAT(os::TestFolder::Read(folder / "io.svg"),
              AllOf(StartsWith("<svg "), HasSubstr(">3 under way</tspan>")));
}

TEST(BenchIoCommandTest, RefusesWhatItCannotRead) {
  const os::TestFolder folder;
  const std::string path = folder.Write("file", std::string(2 << 20, 'x'));
  const std::string small = folder.Write("small", "x");
  struct Case {
    std::vector<std::string> args;
    int exit_code;
    const char* part;
  };
  for (const Case& c :
       {Case{{}, 2, "PATH"}, Case{{path, "--reader", "aio"}, 2, "io_uring"},
        Case{{path, "--depth", "0"}, 2, "--depth"},
        Case{{folder.path(), "--size", "1MiB"}, 2, "less than 2MiB"},
        Case{{path, "--size", "4MiB"}, 1, "leave out --size"},
        Case{{path, "--cpu", "65000"}, 1, "CPU 65000 is none of those"},
        Case{{path, "--svg", path}, 1, "one of the files to read"},
        Case{{small}, 1, "less than one block"},
        Case{{folder / "absent"}, 1, "absent"},
        Case{{folder.path(), "--size", "100000TiB"}, 1, "are free there"}}) {
    const MainResult result = RunSmallIo(c.args);
    EXPECT_EQ(result.exit_code, c.exit_code) << c.part;
    EXPECT_THAT(result.err, HasSubstr(c.part));
  }
}

}  // namespace
}  // namespace thermocline::cli

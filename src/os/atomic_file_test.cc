#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <thread>

#include "os/file.h"
#include "os/test_folder.h"

namespace thermocline::os {
namespace {

namespace fs = std::filesystem;

Status WriteWhole(const std::string& path, std::string_view text) {
  TC_ASSIGN_OR_RETURN(const auto file, AtomicFile::Create(path));
  TC_RETURN_IF_ERROR(file->Write(text));
  return file->Commit();
}

mode_t ModeOf(const std::string& path) {
  struct stat info = {};
  EXPECT_EQ(stat(path.c_str(), &info), 0);
  return info.st_mode & 07777;
}

TEST(AtomicFileTest, AppearsAtCommit) {
  const TestFolder folder;
  const std::string path = folder / "out";
  auto file = AtomicFile::Create(path).value();
  const std::string large(5'000'000, 'z');  // some pieces of 2 MiB
  EXPECT_TRUE(file->Write("abc").has_value());
  EXPECT_TRUE(file->Write(large).has_value());
  EXPECT_TRUE(file->Write(std::as_bytes(std::span("de", 2))).has_value());
  EXPECT_FALSE(fs::exists(path));
  ASSERT_TRUE(file->Commit().has_value());
  EXPECT_EQ(TestFolder::Read(path), "abc" + large + "de");
  EXPECT_EQ(folder.num_entries(), 1);
}

TEST(AtomicFileTest, WithoutCommitNothingChanges) {
  const TestFolder folder;
  const std::string path = folder.Write("out", "old");
  {
    auto file = AtomicFile::Create(path).value();
    EXPECT_TRUE(file->Write(std::string(3'000'000, 'n')).has_value());
    EXPECT_EQ(TestFolder::Read(path), "old");
  }
  EXPECT_EQ(TestFolder::Read(path), "old");
  EXPECT_EQ(folder.num_entries(), 1);
}

TEST(AtomicFileTest, ReplacesWhatWasThere) {
  const TestFolder folder;
  const std::string path = folder.Write("out", "a much longer old text");
  ASSERT_TRUE(WriteWhole(path, "new").has_value());
  EXPECT_EQ(TestFolder::Read(path), "new");
}

TEST(AtomicFileTest, ModeFollowsTheUmask) {
  const TestFolder folder;
  const mode_t saved = umask(027);
  ASSERT_TRUE(WriteWhole(folder / "out", "x").has_value());
  umask(saved);
  EXPECT_EQ(ModeOf(folder / "out"), 0640u);
}

TEST(AtomicFileTest, PermissionsOfAReplacedFileStay) {
  const TestFolder folder;
  const std::string path = folder.Write("out", "old");
  for (const mode_t mode : {0600u, 0664u, 0755u}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    ASSERT_TRUE(WriteWhole(path, "new").has_value());
    EXPECT_EQ(ModeOf(path), mode);
  }
  fs::create_symlink("out", folder / "link");
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  ASSERT_TRUE(WriteWhole(folder / "link", "new").has_value());
  EXPECT_EQ(ModeOf(path), 0600u);
  // A program that others may run as its owner must not come from here.
  ASSERT_EQ(chmod(path.c_str(), 04755), 0);
  ASSERT_TRUE(WriteWhole(path, "new").has_value());
  EXPECT_EQ(ModeOf(path), 0755u);
}

bool CanMakeUnnamedFiles(const std::string& folder) {
  const int fd = open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

TEST(AtomicFileDeathTest, AKilledProcessLeavesNothing) {
  const TestFolder folder;
  if (!CanMakeUnnamedFiles(folder.path())) {
    GTEST_SKIP() << "needs a file system with O_TMPFILE";
  }
  EXPECT_EXIT(
      {
        auto file = AtomicFile::Create(folder / "out").value();
        if (!file->Write(std::string(600'000, 'n')).has_value()) ::_exit(1);
        ::raise(SIGKILL);
      },
      ::testing::KilledBySignal(SIGKILL), "");
  EXPECT_EQ(folder.num_entries(), 0);
}

// From here on, system call `number` fails with `error` in this process.
bool ForbidCall(unsigned number, unsigned error) {
  sock_filter program[] = {
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, number},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | error},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
  sock_fprog filter = {std::size(program), program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// As on file systems and in sandboxes that do not give a name afterwards.
TEST(AtomicFileDeathTest, WithoutLinkatANamedTemporaryServes) {
  constexpr int kNoFilters = 77;
  for (const int error : {EOPNOTSUPP, ENOENT, EPERM}) {
    const TestFolder folder;
    const std::string old = folder.Write("old", "old");
    chmod(old.c_str(), 0600);
    const auto as_child = [&] {
      if (!ForbidCall(SYS_linkat, static_cast<unsigned>(error))) {
        return kNoFilters;
      }
      {
        auto given_up = AtomicFile::Create(folder / "given up").value();
        if (folder.num_entries() != 2) return 1;
        if (std::ranges::none_of(
                fs::directory_iterator(folder.path()), [](const auto& entry) {
                  return IsAtomicTemporary(entry.path().filename().native());
                })) {
          return 5;
        }
      }
      if (folder.num_entries() != 1) return 2;
      if (!WriteWhole(folder / "new", "x").has_value()) return 3;
      return WriteWhole(old, "newer").has_value() ? 0 : 4;
    };
    int code = 0;
    EXPECT_EXIT(
        ::_exit(as_child()),
        [&code](int status) {
          code = WEXITSTATUS(status);
          return WIFEXITED(status);
        },
        "");
    if (code == kNoFilters) GTEST_SKIP() << "needs seccomp filters";
    EXPECT_EQ(code, 0);
    EXPECT_EQ(TestFolder::Read(folder / "new"), "x");
    EXPECT_EQ(TestFolder::Read(old), "newer");
    EXPECT_EQ(ModeOf(old), 0600u);
    EXPECT_EQ(folder.num_entries(), 2);
  }
}

TEST(AtomicFileTest, OtherNamesAreNoTemporaries) {
  for (const char* name : {"a.tmp-1-2", ".a.tmp", ".hidden", "a.gguf", ""}) {
    EXPECT_FALSE(IsAtomicTemporary(name)) << name;
  }
}

TEST(AtomicFileTest, LinksKeepPointing) {
  const TestFolder folder;
  const std::string target = folder.Write("deep/target", "old");
  fs::create_symlink("deep/target", folder / "middle");
  fs::create_symlink(folder / "middle", folder / "link");
  ASSERT_TRUE(WriteWhole(folder / "link", "new").has_value());
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_TRUE(fs::is_symlink(folder / "middle"));
  EXPECT_EQ(TestFolder::Read(target), "new");
}

TEST(AtomicFileTest, DanglingLinksGetTheirTarget) {
  const TestFolder folder;
  fs::create_symlink("later", folder / "link");
  ASSERT_TRUE(WriteWhole(folder / "link", "new").has_value());
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(TestFolder::Read(folder / "later"), "new");
}

TEST(FollowLinksTest, LeadsToWhatIsThereOrNot) {
  const TestFolder folder;
  fs::create_directory(folder / "deep");
  fs::create_symlink("deep/later", folder / "middle");
  fs::create_symlink(folder / "middle", folder / "link");
  EXPECT_EQ(FollowLinks(folder / "link").value_or(""), folder / "deep/later");
  EXPECT_EQ(FollowLinks(folder / "later").value_or(""), folder / "later");
}

TEST(AtomicFileTest, LoopsOfLinksAreRefused) {
  const TestFolder folder;
  fs::create_symlink("b", folder / "a");
  fs::create_symlink("a", folder / "b");
  EXPECT_FALSE(WriteWhole(folder / "a", "x").has_value());
  EXPECT_EQ(folder.num_entries(), 2);
}

TEST(AtomicFileTest, DevicesAndPipesAreWrittenDirectly) {
  EXPECT_TRUE(WriteWhole("/dev/null", "x").has_value());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  const TestFolder folder;
  const std::string fifo = folder / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  std::string received;
  std::thread reader([&] { received = TestFolder::Read(fifo); });
  EXPECT_TRUE(WriteWhole(fifo, "through").has_value());
  reader.join();
  EXPECT_EQ(received, "through");
  EXPECT_TRUE(fs::is_fifo(fifo));
}

// While one lives, standard output goes to the end of a file.
class StdoutTo {
 public:
  explicit StdoutTo(const std::string& path) : saved_(dup(STDOUT_FILENO)) {
    const int fd = open(path.c_str(), O_WRONLY | O_APPEND);
    dup2(fd, STDOUT_FILENO);
    close(fd);
  }
  ~StdoutTo() {
    dup2(saved_, STDOUT_FILENO);
    close(saved_);
  }
  StdoutTo(const StdoutTo&) = delete;
  StdoutTo& operator=(const StdoutTo&) = delete;

 private:
  int saved_;
};

TEST(AtomicFileTest, StandardOutputIsWrittenBehindWhatIsThere) {
  const TestFolder folder;
  const std::string log = folder.Write("log", "old\n");
  const std::string other = folder.Write("other", "old\n");
  {
    const StdoutTo stdout_to(log);
    EXPECT_TRUE(IsStandardOutput("/dev/stdout"));
    EXPECT_TRUE(IsStandardOutput(log));
    EXPECT_FALSE(IsStandardOutput(other));
    EXPECT_FALSE(IsStandardOutput(folder / "absent"));
    ASSERT_TRUE(WriteWhole("/dev/stdout", "a\n").has_value());
    ASSERT_TRUE(WriteWhole(log, "b\n").has_value());
    ASSERT_TRUE(WriteWhole(other, "new\n").has_value());
  }
  EXPECT_EQ(TestFolder::Read(log), "old\na\nb\n");
  EXPECT_EQ(TestFolder::Read(other), "new\n");
}

TEST(AtomicFileTest, AFullDeviceIsReported) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "needs /dev/full";
  const Status status = WriteWhole("/dev/full", "x");
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  EXPECT_NE(status.error().message.find("/dev/full"), std::string::npos);
  auto file = AtomicFile::Create("/dev/full").value();
  EXPECT_FALSE(file->Write(std::string(4'000'000, 'x')).has_value());
}

// What is left of a piece that was half written must not be written again.
TEST(AtomicFileTest, NothingAppearsAfterAFailedWrite) {
  const TestFolder folder;
  auto file = AtomicFile::Create(folder / "out").value();
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small = {.rlim_cur = 1'000'000, .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status failed = file->Write(std::string(3'000'000, 'x'));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  (void)std::signal(SIGXFSZ, old_handler);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code, ErrorCode::kIo);
  for (const Status& again : {file->Write("y"), file->Commit()}) {
    ASSERT_FALSE(again.has_value());
    EXPECT_EQ(again.error().message, failed.error().message);
  }
  EXPECT_EQ(folder.num_entries(), 0);
}

TEST(AtomicFileTest, PlacesThatCannotBeWritten) {
  const TestFolder folder;
  EXPECT_EQ(WriteWhole(folder.path(), "x").error().code, ErrorCode::kIo);
  EXPECT_FALSE(WriteWhole(folder / "no-such-file/", "x").has_value());
  const Status missing = WriteWhole(folder / "none/out", "x");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_NE(missing.error().message.find("none/out"), std::string::npos);
  EXPECT_EQ(WriteWhole("", "x").error().code, ErrorCode::kInvalidArgument);
}

TEST(AtomicFileTest, PermissionsAreRespected) {
  if (geteuid() == 0) GTEST_SKIP() << "needs a user without root's rights";
  const TestFolder folder;
  const std::string file = folder.Write("closed/kept", "old");
  chmod(file.c_str(), 0400);
  EXPECT_EQ(WriteWhole(file, "new").error().code, ErrorCode::kIo);
  EXPECT_EQ(TestFolder::Read(file), "old");
  chmod((folder / "closed").c_str(), 0500);
  EXPECT_EQ(WriteWhole(folder / "closed/new", "x").error().code,
            ErrorCode::kIo);
  chmod((folder / "closed").c_str(), 0700);
}

TEST(AtomicFileTest, LongNamesAndRelativeNames) {
  const TestFolder folder;
  const std::string path = folder / std::string(250, 'n');
  ASSERT_TRUE(WriteWhole(path, "x").has_value());
  EXPECT_EQ(TestFolder::Read(path), "x");
  const fs::path here = fs::current_path();
  fs::current_path(folder.path());
  EXPECT_TRUE(WriteWhole("plain", "y").has_value());
  fs::current_path(here);
  EXPECT_EQ(TestFolder::Read(folder / "plain"), "y");
}

TEST(AtomicFileTest, AnEmptyFileAppearsToo) {
  const TestFolder folder;
  auto file = AtomicFile::Create(folder / "out").value();
  ASSERT_TRUE(file->Commit().has_value());
  EXPECT_TRUE(fs::exists(folder / "out"));
}

}  // namespace
}  // namespace thermocline::os

#include "os/folder_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <utility>

#include "os/test_folder.h"

namespace thermocline::os {
namespace {

// What happens once, between a folder's opening and its locking.
std::function<void()> before_flock;

}  // namespace
}  // namespace thermocline::os

// In the place of the C library's.
extern "C" int flock(int fd, int operation) noexcept {
  if (auto act = std::exchange(thermocline::os::before_flock, {})) act();
  return static_cast<int>(::syscall(SYS_flock, fd, operation));
}

namespace thermocline::os {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

TEST(FolderLockTest, OneAtATime) {
  const TestFolder folder;
  auto first = FolderLock::Take(folder.path());
  ASSERT_TRUE(first) << first.error().message;
  ASSERT_TRUE(first->has_value());
  auto second = FolderLock::Take(folder.path());
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_FALSE(second->has_value());
  first->reset();
  second = FolderLock::Take(folder.path());
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_TRUE(second->has_value());
  EXPECT_EQ(folder.num_entries(), 0);
}

TEST(FolderLockTest, MovesWithItsOwner) {
  const TestFolder folder;
  std::optional<FolderLock> kept;
  {
    auto taken = FolderLock::Take(folder.path());
    ASSERT_TRUE(taken);
    kept = *std::move(taken);
  }
  EXPECT_FALSE(FolderLock::Take(folder.path()).value().has_value());
}

TEST(FolderLockTest, GoesWithTheProcessThatTookIt) {
  const TestFolder folder;
  const std::string path = folder.path();
  const pid_t child = fork();
  if (child == 0) {
    const auto taken = FolderLock::Take(path);
    _exit(taken && taken->has_value() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(FolderLock::Take(path).value().has_value());
}

TEST(FolderLockTest, MakesTheFolder) {
  const TestFolder folder;
  const auto lock = FolderLock::Take(folder / "new");
  ASSERT_TRUE(lock && lock->has_value());
  EXPECT_TRUE(fs::is_directory(folder / "new"));
}

TEST(FolderLockTest, KnowsWhetherTheNameStillMeansItsFolder) {
  const TestFolder folder;
  const std::string path = folder / "work";
  auto taken = FolderLock::Take(path);
  ASSERT_TRUE(taken && taken->has_value());
  const FolderLock lock = **std::move(taken);
  EXPECT_TRUE(lock.IsStillAt(path));
  EXPECT_FALSE(lock.IsStillAt(folder.path()));
  fs::create_symlink("work", folder / "link");
  EXPECT_TRUE(lock.IsStillAt(folder / "link"));
  fs::remove(path);
  EXPECT_FALSE(lock.IsStillAt(path));
  // Another folder of that name is somebody else's.
  const auto second = FolderLock::Take(path);
  ASSERT_TRUE(second && second->has_value());
  EXPECT_TRUE((*second)->IsStillAt(path));
  EXPECT_FALSE(lock.IsStillAt(path));
}

// Who had it deletes it and lets it go; there may be a new one by then.
TEST(FolderLockTest, ADeletedFolderIsNotLockedInTheNextOnesPlace) {
  const TestFolder folder;
  const std::string path = folder / "work";
  for (const bool is_made_anew : {false, true}) {
    before_flock = [&] {
      fs::remove(path);
      if (is_made_anew) fs::create_directory(path);
    };
    const auto lock = FolderLock::Take(path);
    EXPECT_EQ(before_flock, nullptr);
    ASSERT_TRUE(lock && lock->has_value());
    EXPECT_TRUE((*lock)->IsStillAt(path));
  }
}

TEST(FolderLockTest, WhatIsNoFolder) {
  const TestFolder folder;
  const auto missing = FolderLock::Take(folder / "none/deeper");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr(folder / "none/deeper"));
  EXPECT_FALSE(FolderLock::Take(folder.Write("file", "x")));
  fs::create_symlink("none", folder / "link");
  const auto nowhere = FolderLock::Take(folder / "link");
  ASSERT_FALSE(nowhere);
  EXPECT_THAT(nowhere.error().message, HasSubstr("cannot open this folder"));
}

}  // namespace
}  // namespace thermocline::os

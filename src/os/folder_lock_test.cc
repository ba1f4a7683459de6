#include "os/folder_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include "os/test_folder.h"

namespace thermocline::os {
namespace {

using ::testing::HasSubstr;

TEST(LockFolderTest, OneAtATime) {
  const TestFolder folder;
  auto first = LockFolder(folder.path());
  ASSERT_TRUE(first) << first.error().message;
  ASSERT_TRUE(first->has_value());
  auto second = LockFolder(folder.path());
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_FALSE(second->has_value());
  first->reset();
  second = LockFolder(folder.path());
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_TRUE(second->has_value());
  EXPECT_EQ(folder.num_entries(), 0);
}

TEST(LockFolderTest, MovesWithItsOwner) {
  const TestFolder folder;
  std::optional<UniqueFd> kept;
  {
    auto taken = LockFolder(folder.path());
    ASSERT_TRUE(taken);
    kept = *std::move(taken);
  }
  EXPECT_FALSE(LockFolder(folder.path()).value().has_value());
}

TEST(LockFolderTest, GoesWithTheProcessThatTookIt) {
  const TestFolder folder;
  const std::string path = folder.path();
  const pid_t child = fork();
  if (child == 0) {
    const auto taken = LockFolder(path);
    _exit(taken && taken->has_value() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(LockFolder(path).value().has_value());
}

TEST(LockFolderTest, WhatIsNoFolder) {
  const TestFolder folder;
  const auto missing = LockFolder(folder / "none");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr(folder / "none"));
  EXPECT_FALSE(LockFolder(folder.Write("file", "x")));
}

}  // namespace
}  // namespace thermocline::os

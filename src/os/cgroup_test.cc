#include "os/cgroup.h"

#include <gtest/gtest.h>

#include "os/test_folder.h"

namespace thermocline::os {
namespace {

std::optional<double> QuotaIn(const TestFolder& root) {
  return ReadCpuQuota(root / "proc", root / "sys");
}

TEST(CgroupTest, FoldersGoUpToTheMount) {
  const TestFolder root;
  root.Write("proc/self/cgroup",
             "5:cpu,cpuacct:/a\n4:memory:/job\n0::/outer/inner/\nnonsense\n");
  std::vector<std::string> found;
  for (const auto& [path, version] : FindCgroups("cpu", root / "proc", "")) {
    found.push_back(path + " " + std::to_string(version));
  }
  const std::vector<std::string> expected = {"/fs/cgroup/cpu/a 1",
                                             "/fs/cgroup/cpu 1",
                                             "/fs/cgroup/cpu,cpuacct/a 1",
                                             "/fs/cgroup/cpu,cpuacct 1",
                                             "/fs/cgroup/outer/inner 2",
                                             "/fs/cgroup/outer 2",
                                             "/fs/cgroup 2"};
  EXPECT_EQ(found, expected);
}

TEST(CgroupTest, TheLeastQuotaOfVersionTwoCounts) {
  const TestFolder root;
  root.Write("proc/self/cgroup", "0::/outer/inner\n");
  EXPECT_EQ(QuotaIn(root), std::nullopt);
  root.Write("sys/fs/cgroup/outer/inner/cpu.max", "max 100000\n");
  EXPECT_EQ(QuotaIn(root), std::nullopt);
  root.Write("sys/fs/cgroup/outer/cpu.max", "150000 100000\n");
  EXPECT_EQ(QuotaIn(root), 1.5);
  root.Write("sys/fs/cgroup/cpu.max", "800000 100000\n");
  EXPECT_EQ(QuotaIn(root), 1.5);
}

TEST(CgroupTest, QuotasOfVersionOne) {
  const TestFolder root;
  root.Write("proc/self/cgroup", "1:cpu:/job\n0::/\n");
  root.Write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
  root.Write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(QuotaIn(root), std::nullopt);
  root.Write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000\n");
  EXPECT_EQ(QuotaIn(root), std::nullopt);  // no period
  root.Write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(QuotaIn(root), 4.0);
}

TEST(CgroupTest, NonsenseIsNoQuota) {
  const TestFolder root;
  root.Write("proc/self/cgroup", "0::/\n");
  for (const char* text :
       {"", "100000", "1 0", "0 1", "x 1", "-5 1", "99999999999999999999 1"}) {
    root.Write("sys/fs/cgroup/cpu.max", text);
    EXPECT_EQ(QuotaIn(root), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace thermocline::os

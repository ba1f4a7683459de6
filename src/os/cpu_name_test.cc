#include "os/cpu_name.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

namespace thermocline::os {
namespace {

std::string NameIn(const std::string& cpuinfo) {
  const std::string path =
      ::testing::TempDir() + "cpuinfo_" + std::to_string(::getpid());
  std::ofstream(path) << cpuinfo;
  const std::string name = ReadCpuName(path);
  std::remove(path.c_str());
  return name;
}

TEST(ReadCpuNameTest, TakesTheFirstModelName) {
  EXPECT_EQ(NameIn("processor\t: 0\nmodel\t\t: 85\n"
                   "model name\t: A CPU: 2.50GHz\nflags\t: x\n\n"
                   "processor\t: 1\nmodel name\t: Another\n"),
            "A CPU: 2.50GHz");
}

TEST(ReadCpuNameTest, EmptyWhereThereIsNone) {
  EXPECT_EQ(NameIn("processor\t: 0\nCPU part\t: 0xd0c\n"), "");
  EXPECT_EQ(NameIn("model name\t:\n"), "");
  EXPECT_EQ(NameIn("model name"), "");
  EXPECT_EQ(ReadCpuName("/no/such/file"), "");
}

}  // namespace
}  // namespace thermocline::os

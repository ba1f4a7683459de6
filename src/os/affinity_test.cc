#include "os/affinity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <optional>
#include <thread>
#include <vector>

#include "os/topology.h"

namespace thermocline::os {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int> CpusHere() {
  std::vector<int> cpus;
  for (const Cpu& cpu : ReadTopology().cpus) cpus.push_back(cpu.id);
  return cpus;
}

TEST(OnCpus, HoldsForThisThreadAndThoseItStarts) {
  const std::vector<int> before = CpusHere();
  const int last = before.back();
  {
    const auto on = OnCpus::Enter(std::vector<int>{last});
    ASSERT_TRUE(on.has_value()) << on.error().message;
    EXPECT_THAT(CpusHere(), ElementsAre(last));
    std::vector<int> of_other;
    std::thread([&] { of_other = CpusHere(); }).join();
    EXPECT_THAT(of_other, ElementsAre(last));
  }
  EXPECT_EQ(CpusHere(), before);
}

TEST(OnCpus, MayBeKept) {
  const std::vector<int> before = CpusHere();
  std::thread([&] {
    OnCpus::Enter(std::vector<int>{before.front()})->Keep();
    EXPECT_THAT(CpusHere(), ElementsAre(before.front()));
  }).join();
  EXPECT_EQ(CpusHere(), before);
}

TEST(OnCpus, RefusesCpusThatAreNotThere) {
  const std::vector<int> before = CpusHere();
  const auto unknown = OnCpus::Enter(std::vector<int>{before.front(), 99999});
  ASSERT_FALSE(unknown.has_value());
  EXPECT_THAT(unknown.error().message, HasSubstr("CPU 99999 is none of those"));
  EXPECT_FALSE(OnCpus::Enter({}).has_value());
  EXPECT_EQ(CpusHere(), before);
}

}  // namespace
}  // namespace thermocline::os

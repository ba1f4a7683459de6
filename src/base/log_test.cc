#include "base/log.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace thermocline {
namespace {

TEST(LogTest, LinesReachTheSinkUntilItIsRemoved) {
  std::vector<std::string> lines;
  SetLogSink([&](LogLevel level, std::string_view line) {
    lines.push_back((level == LogLevel::kWarning ? "W " : "I ") +
                    std::string(line));
  });
  LogInfo("{} layers", 3);
  LogWarning("no key {}", "x");
  SetLogSink({});
  LogInfo("dropped");
  EXPECT_EQ(lines, (std::vector<std::string>{"I 3 layers", "W no key x"}));
}

}  // namespace
}  // namespace thermocline

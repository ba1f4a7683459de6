#include "base/log.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
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

TEST(LogOnceScopeTest, EveryLineComesOnceWhileItLives) {
  std::vector<std::string> lines;
  SetLogSink(
      [&](LogLevel, std::string_view line) { lines.emplace_back(line); });
  {
    const LogOnceScope once;
    LogWarning("a");
    LogWarning("b");
    LogWarning("a");
    std::thread([] { LogWarning("a"); }).join();  // not of this thread
  }
  LogWarning("a");
  {
    const LogOnceScope another;
    LogWarning("a");
  }
  SetLogSink({});
  EXPECT_EQ(lines, (std::vector<std::string>{"a", "b", "a", "a", "a"}));
}

}  // namespace
}  // namespace thermocline

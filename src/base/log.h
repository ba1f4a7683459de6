// Libraries do not print. What a user should hear besides the result goes to
// the sink that the program installs; without one it is dropped.
#ifndef THERMOCLINE_BASE_LOG_H_
#define THERMOCLINE_BASE_LOG_H_

#include <fmt/format.h>

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace thermocline {

enum class LogLevel { kInfo, kWarning };

// Called with one line, without newline. Calls are serialised by a mutex.
using LogSink = std::function<void(LogLevel, std::string_view)>;

// Replaces the sink of the process; an empty sink drops everything.
void SetLogSink(LogSink sink);

// While one lives, its thread logs no line a second time. For reading again
// what has already been read and warned of. They must not nest. (CHECKed)
class LogOnceScope {
 public:
  LogOnceScope();
  ~LogOnceScope();
  LogOnceScope(const LogOnceScope&) = delete;
  LogOnceScope& operator=(const LogOnceScope&) = delete;

 private:
  friend void LogLine(LogLevel level, std::string_view line);
  std::set<std::string, std::less<>> lines_;
};

void LogLine(LogLevel level, std::string_view line);

template <typename... Args>
void LogInfo(fmt::format_string<Args...> format, Args&&... args) {
  LogLine(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
void LogWarning(fmt::format_string<Args...> format, Args&&... args) {
  LogLine(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace thermocline

#endif  // THERMOCLINE_BASE_LOG_H_

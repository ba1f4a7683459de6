#include "base/log.h"

#include <mutex>

#include "base/check.h"

namespace thermocline {
namespace {

std::mutex& SinkMutex() {
  static std::mutex mutex;
  return mutex;
}

LogSink& Sink() {
  static LogSink sink;
  return sink;
}

thread_local LogOnceScope* once_scope = nullptr;

}  // namespace

LogOnceScope::LogOnceScope() {
  TC_CHECK(once_scope == nullptr);
  once_scope = this;
}

LogOnceScope::~LogOnceScope() { once_scope = nullptr; }

void SetLogSink(LogSink sink) {
  std::lock_guard lock(SinkMutex());
  Sink() = std::move(sink);
}

void LogLine(LogLevel level, std::string_view line) {
  if (once_scope != nullptr && !once_scope->lines_.emplace(line).second) return;
  std::lock_guard lock(SinkMutex());
  if (Sink()) Sink()(level, line);
}

}  // namespace thermocline

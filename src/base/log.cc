#include "base/log.h"

#include <mutex>

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

}  // namespace

void SetLogSink(LogSink sink) {
  std::lock_guard lock(SinkMutex());
  Sink() = std::move(sink);
}

void LogLine(LogLevel level, std::string_view line) {
  std::lock_guard lock(SinkMutex());
  if (Sink()) Sink()(level, line);
}

}  // namespace thermocline

// For tests: collects what libraries log while it lives.
#ifndef THERMOCLINE_MODEL_TEST_LOG_H_
#define THERMOCLINE_MODEL_TEST_LOG_H_

#include <string>
#include <vector>

#include "base/log.h"

namespace thermocline::model {

class TestLog {
 public:
  TestLog() {
    SetLogSink(
        [this](LogLevel, std::string_view line) { lines_.emplace_back(line); });
  }
  ~TestLog() { SetLogSink({}); }
  TestLog(const TestLog&) = delete;
  TestLog& operator=(const TestLog&) = delete;

  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::vector<std::string> lines_;
};

}  // namespace thermocline::model

#endif  // THERMOCLINE_MODEL_TEST_LOG_H_

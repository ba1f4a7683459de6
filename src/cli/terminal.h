// What a person at a terminal sees besides the result.
#ifndef THERMOCLINE_CLI_TERMINAL_H_
#define THERMOCLINE_CLI_TERMINAL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/progress.h"
#include "base/status.h"

namespace thermocline::cli {

// Whether standard error takes colours: a terminal that is not "dumb", and
// NO_COLOR is unset or empty (no-color.org).
bool StderrTakesColour();

// "thermocline: error: text\n", the second word red where colours are taken.
// Line ends and other control characters inside the text become spaces: an
// error is one line, and never steers the terminal.
std::string FormatError(std::string_view text, bool colour);
std::string FormatWarning(std::string_view text, bool colour);

enum class ProgressUnit : uint8_t { kCount, kBytes };

// The text for a terminal: control characters other than line ends and tabs
// become spaces, so that what a model writes never steers it.
std::string ForTerminal(std::string_view text);

// Writes what a model says to standard output: as it is, but for a terminal.
Status WriteModelText(std::string_view text);

// "prefill  57 %  (1200 of 2100), 12 s left"; sizes for bytes. The rest is
// estimated from the seconds that were needed so far; before 1 % there is none.
std::string FormatProgress(std::string_view what, uint64_t num_done,
                           uint64_t num_total, ProgressUnit unit,
                           double seconds);

// The start of an ASCII line that leaves the last of `num_columns` columns
// free, all of it where that is 0: a line that goes on in the next row cannot
// be wiped.
std::string_view CutToWidth(std::string_view line, size_t num_columns);

// One line on standard error that is rewritten while work goes on. Silent
// unless standard error is a terminal that is not "dumb" and the work takes
// over a second: since the construction, and after a Clear since the next
// Update.
// Threads: one at a time. The destructor wipes the line.
class ProgressLine {
 public:
  explicit ProgressLine(ProgressUnit unit = ProgressUnit::kCount);
  ~ProgressLine() { Clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void Update(std::string_view what, uint64_t num_done, uint64_t num_total);
  void Clear();

  // Update as a callback; empty where nothing would be shown. Valid while this
  // object lives.
  ProgressFn callback();

 private:
  ProgressUnit unit_;
  bool enabled_;
  bool shown_ = false;
  bool is_idle_ = false;
  Stopwatch since_start_;
  Stopwatch since_update_;
  Stopwatch since_phase_;  // work that counts up to another total
  uint64_t last_done_ = 0;
  uint64_t last_total_ = 0;
};

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_TERMINAL_H_

#include "cli/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/quote.h"
#include "base/units.h"
#include "cli/standard_io.h"

namespace thermocline::cli {
namespace {

constexpr double kQuietSeconds = 1.0;
constexpr double kUpdateSeconds = 0.1;
constexpr std::string_view kWipeLine = "\r\x1b[K";

std::string FormatLine(std::string_view kind, std::string_view colour_code,
                       std::string_view text, bool colour) {
  const std::string plain = WithoutControls(text);
  return colour ? fmt::format("thermocline: \x1b[{}m{}:\x1b[0m {}\n",
                              colour_code, kind, plain)
                : fmt::format("thermocline: {}: {}\n", kind, plain);
}

bool TerminalIsDumb() {
  const char* term = std::getenv("TERM");
  return term != nullptr && std::string_view(term) == "dumb";
}

// 0: not known.
size_t StderrColumns() {
  winsize size = {};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

// ", 12 s left", ", 3 min left".
std::string FormatRest(double seconds) {
  return seconds < 100.0 ? fmt::format(", {:.0f} s left", seconds)
                         : fmt::format(", {:.0f} min left", seconds / 60.0);
}

}  // namespace

bool StderrTakesColour() {
  const char* no_color = std::getenv("NO_COLOR");
  if (no_color != nullptr && *no_color != '\0') return false;
  return !TerminalIsDumb() && StderrIsTerminal();
}

std::string FormatError(std::string_view text, bool colour) {
  return FormatLine("error", "1;31", text, colour);
}

std::string FormatWarning(std::string_view text, bool colour) {
  return FormatLine("warning", "1;33", text, colour);
}

std::string ForTerminal(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of("\n\t"), text.size());
    shown += WithoutControls(text.substr(0, end));
    shown += text.substr(end, 1);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return shown;
}

Status WriteModelText(std::string_view text) {
  return WriteStdout(StdoutIsTerminal() ? ForTerminal(text)
                                        : std::string(text));
}

std::string FormatProgress(std::string_view what, uint64_t num_done,
                           uint64_t num_total, ProgressUnit unit,
                           double seconds) {
  const double share = num_total == 0 ? 1.0
                                      : static_cast<double>(num_done) /
                                            static_cast<double>(num_total);
  const auto amount = [unit](uint64_t n) {
    return unit == ProgressUnit::kBytes ? FormatBytes(n) : std::to_string(n);
  };
  return fmt::format(
      "{}  {:.0f} %  ({} of {}){}", what, 100.0 * share, amount(num_done),
      amount(num_total),
      share < 0.01 ? "" : FormatRest(seconds * (1.0 - share) / share));
}

std::string_view CutToWidth(std::string_view line, size_t num_columns) {
  return num_columns == 0 ? line : line.substr(0, num_columns - 1);
}

ProgressLine::ProgressLine(ProgressUnit unit)
    : unit_(unit), enabled_(StderrIsTerminal() && !TerminalIsDumb()) {}

void ProgressLine::Update(std::string_view what, uint64_t num_done,
                          uint64_t num_total) {
  if (is_idle_) since_start_.Restart();
  if (is_idle_ || num_total != last_total_ || num_done < last_done_) {
    since_phase_.Restart();
  }
  is_idle_ = false;
  last_total_ = num_total;
  last_done_ = num_done;
  if (!enabled_ || since_start_.Seconds() < kQuietSeconds) return;
  if (shown_ && since_update_.Seconds() < kUpdateSeconds) return;
  since_update_.Restart();
  shown_ = true;
  const std::string line =
      FormatProgress(what, num_done, num_total, unit_, since_phase_.Seconds());
  WriteStderr(
      fmt::format("{}{}", kWipeLine, CutToWidth(line, StderrColumns())));
}

void ProgressLine::Clear() {
  if (shown_) WriteStderr(kWipeLine);
  shown_ = false;
  is_idle_ = true;
}

ProgressFn ProgressLine::callback() {
  if (!enabled_) return {};
  return [this](std::string_view what, uint64_t num_done, uint64_t num_total) {
    Update(what, num_done, num_total);
  };
}

}  // namespace thermocline::cli

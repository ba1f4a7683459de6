#include "cli/terminal.h"

#include <fmt/format.h>

#include <cstdlib>

#include "base/quote.h"
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

}  // namespace

bool StderrTakesColour() {
  const char* no_color = std::getenv("NO_COLOR");
  if (no_color != nullptr && *no_color != '\0') return false;
  const char* term = std::getenv("TERM");
  if (term != nullptr && std::string_view(term) == "dumb") return false;
  return StderrIsTerminal();
}

std::string FormatError(std::string_view text, bool colour) {
  return FormatLine("error", "1;31", text, colour);
}

std::string FormatWarning(std::string_view text, bool colour) {
  return FormatLine("warning", "1;33", text, colour);
}

std::string FormatProgress(std::string_view what, uint64_t num_done,
                           uint64_t num_total) {
  const double percent = num_total == 0
                             ? 100.0
                             : 100.0 * static_cast<double>(num_done) /
                                   static_cast<double>(num_total);
  return fmt::format("{}  {:.0f} %  ({} of {})", what, percent, num_done,
                     num_total);
}

ProgressLine::ProgressLine() : enabled_(StderrIsTerminal()) {}

void ProgressLine::Update(std::string_view what, uint64_t num_done,
                          uint64_t num_total) {
  if (!enabled_ || since_start_.Seconds() < kQuietSeconds) return;
  if (shown_ && since_update_.Seconds() < kUpdateSeconds) return;
  since_update_.Restart();
  shown_ = true;
  WriteStderr(fmt::format("{}{}", kWipeLine,
                          FormatProgress(what, num_done, num_total)));
}

void ProgressLine::Clear() {
  if (shown_) WriteStderr(kWipeLine);
  shown_ = false;
}

ProgressFn ProgressLine::callback() {
  if (!enabled_) return {};
  return [this](std::string_view what, uint64_t num_done, uint64_t num_total) {
    Update(what, num_done, num_total);
  };
}

}  // namespace thermocline::cli

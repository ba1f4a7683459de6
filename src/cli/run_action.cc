#include "cli/run_action.h"

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "base/log.h"
#include "cli/remedies.h"
#include "cli/signals.h"
#include "cli/standard_io.h"
#include "cli/terminal.h"
#include "os/file.h"

namespace thermocline::cli {
namespace {

constexpr int kExitFailure = 1;

// The failed action's exit code, its message printed. What was stopped on
// request has none: by a signal, or by the reader of our output going away.
int Failure(const Error& error) {
  if (error.code == ErrorCode::kCancelled) {
    return InterruptSignal() != 0 ? 128 + InterruptSignal() : 0;
  }
  WriteStderr(FormatError(Explain(error), StderrTakesColour()));
  return kExitFailure;
}

// A file that changed under the command is its failure, whatever it made of it;
// where it failed anyway, perhaps why.
Status WithChangedFiles(Status status) {
  for (const std::string& path : os::TakeChangedFiles()) {
    if (status.has_value()) {
      status = Fail(ErrorCode::kIo, "{}", os::DescribeChange(path));
    } else {
      LogWarning("{}", os::DescribeChange(path));
    }
  }
  return status;
}

}  // namespace

int RunAction(const std::string& command, const Action& action) {
  Status status;
  try {
    status = action();
  } catch (const std::bad_alloc&) {
    status = Fail(ErrorCode::kResourceExhausted,
                  "{}: out of memory: it takes more than there is, or than "
                  "this process may have (ulimit -v)",
                  command);
  } catch (const std::exception& error) {
    status = Fail(ErrorCode::kIo, "unexpected failure: {}", error.what());
  }
  status = WithChangedFiles(std::move(status));
  return status.has_value() ? 0 : Failure(status.error());
}

}  // namespace thermocline::cli

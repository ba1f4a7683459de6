// What the program does when the system interrupts it.
#ifndef THERMOCLINE_CLI_SIGNALS_H_
#define THERMOCLINE_CLI_SIGNALS_H_

#include <atomic>
#include <functional>

namespace thermocline::cli {

// SIGINT, SIGTERM, SIGHUP (unless ignored: nohup): the first one sets the
// cancel flag, so that work stops in order; a second one ends the process at
// once with 128 + signal. SIGPIPE and SIGXFSZ are ignored: writing says EPIPE
// or EFBIG. SIGBUS in a mapped file (it shrank, or its disk failed) becomes one
// message with the file's name and exit code 1. SIGCONT is noted for
// TakeContinue.
void InstallSignalHandlers();

// Set by the first interrupt; cleared by TakeCtrlC alone.
const std::atomic<bool>* CancelFlag();

// The number of the signal that set the flag, 0 if none did.
int InterruptSignal();

// Whether the process was stopped and went on (Ctrl-Z, then fg) since the last
// call.
bool TakeContinue();

// Waits until `fd` has something to read, an end or an error too: true. False:
// the flag is set. Calls `on_continue` when the process goes on after a stop.
// One thread at a time.
bool WaitForInput(int fd, const std::function<void()>& on_continue = {});

// Clears the flag if a SIGINT set it and returns whether one did; what other
// signals set stays. For programs in which Ctrl-C stops one answer.
bool TakeCtrlC();

// While one lives, a SIGINT only ever sets the flag: the second one does not
// end the process.
class CatchCtrlC {
 public:
  CatchCtrlC();
  ~CatchCtrlC();
  CatchCtrlC(const CatchCtrlC&) = delete;
  CatchCtrlC& operator=(const CatchCtrlC&) = delete;
};

// While one lives, the first interrupt ends the process at once. For work that
// cannot be cancelled and would leave nothing behind, as opening a model.
class ExitOnInterrupt {
 public:
  ExitOnInterrupt();
  ~ExitOnInterrupt();
  ExitOnInterrupt(const ExitOnInterrupt&) = delete;
  ExitOnInterrupt& operator=(const ExitOnInterrupt&) = delete;
};

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_SIGNALS_H_

#include "cli/signals.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "os/file.h"

namespace thermocline::cli {
namespace {

std::atomic<bool> g_cancel = false;
std::atomic<int> g_signal = 0;
std::atomic<bool> g_continued = false;
std::atomic<int> g_num_exit_scopes = 0;
std::atomic<int> g_num_catch_scopes = 0;
// Wakes WaitForInput: a flag alone would be missed when it is set just before
// the wait begins. Opened before there are handlers.
std::array<int, 2> g_wake_pipe = {-1, -1};
static_assert(std::atomic<bool>::is_always_lock_free &&
                  std::atomic<int>::is_always_lock_free,
              "signal handlers use them");

// Async-signal-safe.
void Wake() {
  const int saved_errno = errno;
  [[maybe_unused]] const ssize_t ignored = ::write(g_wake_pipe[1], "", 1);
  errno = saved_errno;
}

void OnContinue(int /*signal*/) {
  g_continued.store(true);
  Wake();
}

void OnInterrupt(int signal) {
  // The number first: who sees the flag reads the number. Others than SIGINT
  // stay whatever TakeCtrlC does.
  int none = 0;
  if (!g_signal.compare_exchange_strong(none, signal) && signal != SIGINT) {
    g_signal.store(signal);
  }
  const bool is_second = g_cancel.exchange(true);
  const bool is_caught = signal == SIGINT && g_num_catch_scopes.load() > 0;
  if ((is_second && !is_caught) || g_num_exit_scopes.load() > 0) {
    ::_exit(128 + signal);
  }
  Wake();
}

// Appends to a fixed buffer; async-signal-safe.
class MessageBuffer {
 public:
  void Append(const char* text) {
    const size_t room = sizeof(bytes_) - size_;
    const size_t length = std::strlen(text);
    const size_t num_copied = length < room ? length : room;
    std::memcpy(bytes_ + size_, text, num_copied);
    size_ += num_copied;
  }
  void WriteToStderr() const {
    [[maybe_unused]] const ssize_t ignored =
        ::write(STDERR_FILENO, bytes_, size_);
  }

 private:
  char bytes_[4608];  // a path has at most 4096
  size_t size_ = 0;
};

void OnBusError(int signal, siginfo_t* info, void* /*context*/) {
  const char* path = os::FindMappedFile(info->si_addr);
  if (path == nullptr) {
    // Not ours: returning runs the instruction again, now with the default
    // action, so that the core dump shows the place.
    std::signal(signal, SIG_DFL);
    return;
  }
  MessageBuffer message;
  message.Append("thermocline: error: ");
  message.Append(path);
  message.Append(
      ": shrank or cannot be read while in use; was it overwritten, or did "
      "its disk fail?\n");
  message.WriteToStderr();
  ::_exit(1);
}

// By default without SA_RESTART: reads give EINTR.
void Install(int signal, void (*handler)(int), int flags = 0) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

}  // namespace

void InstallSignalHandlers() {
  if (g_wake_pipe[0] < 0 &&
      ::pipe2(g_wake_pipe.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    g_wake_pipe = {-1, -1};  // waits then end with the next key
  }
  Install(SIGINT, OnInterrupt);
  Install(SIGTERM, OnInterrupt);
  // Under nohup it is ignored, and has to stay so.
  struct sigaction hangup = {};
  ::sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) Install(SIGHUP, OnInterrupt);
  Install(SIGCONT, OnContinue, SA_RESTART);  // who waits is woken by the pipe
  Install(SIGPIPE, SIG_IGN);
  Install(SIGXFSZ, SIG_IGN);  // a file too large is an error of its write

  struct sigaction action = {};
  action.sa_sigaction = OnBusError;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, nullptr);
}

const std::atomic<bool>* CancelFlag() { return &g_cancel; }

int InterruptSignal() { return g_signal.load(); }

bool TakeContinue() { return g_continued.exchange(false); }

bool WaitForInput(int fd, const std::function<void()>& on_continue) {
  while (!g_cancel.load()) {
    std::array<pollfd, 2> fds = {
        {{.fd = fd, .events = POLLIN, .revents = 0},
         {.fd = g_wake_pipe[0], .events = POLLIN, .revents = 0}}};
    ::poll(fds.data(), fds.size(), -1);
    if (fds[1].revents != 0) {
      // The flags were set before this was written.
      std::array<char, 16> bytes;
      while (::read(g_wake_pipe[0], bytes.data(), bytes.size()) > 0) {
      }
      if (TakeContinue() && on_continue) on_continue();
    } else if (fds[0].revents != 0 && !g_cancel.load()) {
      return true;  // a signal that ends the wait goes before an end of input
    }
  }
  return false;
}

bool TakeCtrlC() {
  if (g_signal.load() != SIGINT) return false;
  g_cancel.store(false);
  int ctrl_c = SIGINT;
  if (g_signal.compare_exchange_strong(ctrl_c, 0)) return true;
  g_cancel.store(true);  // a signal of another kind came meanwhile
  return false;
}

CatchCtrlC::CatchCtrlC() { g_num_catch_scopes.fetch_add(1); }

CatchCtrlC::~CatchCtrlC() { g_num_catch_scopes.fetch_sub(1); }

ExitOnInterrupt::ExitOnInterrupt() {
  g_num_exit_scopes.fetch_add(1);
  // An interrupt just before this line set the flag only.
  if (g_cancel.load()) ::_exit(128 + InterruptSignal());
}

ExitOnInterrupt::~ExitOnInterrupt() { g_num_exit_scopes.fetch_sub(1); }

}  // namespace thermocline::cli

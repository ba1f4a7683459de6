#include "cli/signals.h"

#include <csignal>
#include <cstring>

#include <unistd.h>

#include "os/file.h"

namespace thermocline::cli {
namespace {

std::atomic<bool> g_cancel = false;
std::atomic<int> g_signal = 0;
std::atomic<int> g_num_exit_scopes = 0;
static_assert(std::atomic<bool>::is_always_lock_free &&
                  std::atomic<int>::is_always_lock_free,
              "signal handlers use them");

void OnInterrupt(int signal) {
  // The number first: who sees the flag reads the number.
  int none = 0;
  g_signal.compare_exchange_strong(none, signal);
  const bool is_second = g_cancel.exchange(true);
  if (is_second || g_num_exit_scopes.load() > 0) ::_exit(128 + signal);
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

void Install(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);  // no SA_RESTART: reads give EINTR
}

}  // namespace

void InstallSignalHandlers() {
  Install(SIGINT, OnInterrupt);
  Install(SIGTERM, OnInterrupt);
  // Under nohup it is ignored, and has to stay so.
  struct sigaction hangup = {};
  ::sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) Install(SIGHUP, OnInterrupt);
  Install(SIGPIPE, SIG_IGN);

  struct sigaction action = {};
  action.sa_sigaction = OnBusError;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, nullptr);
}

const std::atomic<bool>* CancelFlag() { return &g_cancel; }

int InterruptSignal() { return g_signal.load(); }

ExitOnInterrupt::ExitOnInterrupt() {
  g_num_exit_scopes.fetch_add(1);
  // An interrupt just before this line set the flag only.
  if (g_cancel.load()) ::_exit(128 + InterruptSignal());
}

ExitOnInterrupt::~ExitOnInterrupt() { g_num_exit_scopes.fetch_sub(1); }

}  // namespace thermocline::cli

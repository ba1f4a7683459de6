#include "npu/child_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/units.h"

namespace thermocline::npu {
namespace {

constexpr auto kFirstPause = std::chrono::milliseconds(1);
constexpr auto kLongestPause = std::chrono::milliseconds(20);

std::string ReasonOf(int error_number) {
  return std::generic_category().message(error_number);
}

// Where temporary files go, as a user can change it.
std::string TemporaryPlace() {
  const char* named = std::getenv("TMPDIR");
  if (named != nullptr && *named != '\0') {
    return fmt::format("'{}', which $TMPDIR names", named);
  }
  std::error_code ignored;
  return fmt::format("'{}' (another folder: $TMPDIR)",
                     std::filesystem::temp_directory_path(ignored).string());
}

// What posix_spawn is told: a group of its own, so that all of it can be
// killed; signals as a new program expects them.
class SpawnSettings {
 public:
  explicit SpawnSettings(const std::string& log_path) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions_, 1, log_path.c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&actions_, 1, 2);
    posix_spawn_file_actions_addclosefrom_np(&actions_, 3);
    posix_spawnattr_init(&attributes_);
    sigset_t signals;
    sigfillset(&signals);
    posix_spawnattr_setsigdefault(&attributes_, &signals);
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes_, &signals);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP |
                                               POSIX_SPAWN_SETSIGDEF |
                                               POSIX_SPAWN_SETSIGMASK);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

// Whether it is over by now; without time: waits for it. It stays a zombie, so
// that nobody else gets its number.
bool IsOver(pid_t child, bool has_time) {
  while (true) {
    siginfo_t info = {};
    const int options = WEXITED | WNOWAIT | (has_time ? WNOHANG : 0);
    const int waited = waitid(P_PID, static_cast<id_t>(child), &info, options);
    if (waited != 0 && errno == EINTR) continue;
    return waited != 0 || info.si_pid == child;
  }
}

// Waits for the child, kills what is left of its group, and tells its end.
ChildEnd WaitFor(pid_t child, double most_seconds,
                 const std::atomic<bool>* cancel) {
  const bool has_time = most_seconds > 0.0 || cancel != nullptr;
  const Stopwatch watch;
  ChildEnd end;
  auto pause = kFirstPause;
  bool is_killed = false;
  while (!IsOver(child, has_time && !is_killed)) {
    end.is_cancelled = cancel != nullptr && cancel->load();
    end.is_timed_out = most_seconds > 0.0 && watch.Seconds() > most_seconds;
    if (end.is_cancelled || end.is_timed_out) {
      is_killed = true;
      kill(-child, SIGKILL);
      continue;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
  kill(-child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
  return end;
}

}  // namespace

Result<ChildEnd> RunChild(const std::vector<std::string>& argv,
                          const std::string& log_path, double most_seconds,
                          const std::atomic<bool>* cancel) {
  std::vector<char*> strings;
  for (const std::string& arg : argv) {
    strings.push_back(const_cast<char*>(arg.c_str()));
  }
  strings.push_back(nullptr);
  const SpawnSettings settings(log_path);
  pid_t child = 0;
  const int error =
      posix_spawnp(&child, strings[0], settings.actions(),
                   settings.attributes(), strings.data(), environ);
  if (error != 0) {
    return Fail(ErrorCode::kIo, "{}: cannot be started: {}", argv[0],
                ReasonOf(error));
  }
  return WaitFor(child, most_seconds, cancel);
}

void DieWithParent(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) raise(SIGKILL);
}

Result<PrivateFolder> PrivateFolder::Create() {
  std::error_code error;
  const std::filesystem::path parent =
      std::filesystem::temp_directory_path(error);
  std::string path = (parent / "thermocline-XXXXXX").string();
  if (error || mkdtemp(path.data()) == nullptr) {
    return Fail(ErrorCode::kIo, "{}: no temporary folder can be made there: {}",
                TemporaryPlace(), error ? error.message() : ReasonOf(errno));
  }
  return PrivateFolder(std::move(path));
}

Status PrivateFolder::CheckRoom(uint64_t num_bytes) const {
  std::error_code error;
  const auto space = std::filesystem::space(path_, error);
  if (error || space.available >= num_bytes) return {};
  return Fail(ErrorCode::kIo, "{}: {} are to be written there, and {} are free",
              TemporaryPlace(), FormatBytes(num_bytes),
              FormatBytes(space.available));
}

PrivateFolder::PrivateFolder(PrivateFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})) {}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace thermocline::npu

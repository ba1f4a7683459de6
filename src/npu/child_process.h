// A program that is run to its end, or to the end of its time.
#ifndef THERMOCLINE_NPU_CHILD_PROCESS_H_
#define THERMOCLINE_NPU_CHILD_PROCESS_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace thermocline::npu {

// How it ended.
struct ChildEnd {
  bool is_timed_out = false;  // and was killed, with all that it started
  bool is_cancelled = false;  // likewise
  int signal = 0;             // that it died of; 0: none
  int exit_code = 0;
};

// argv[0] is looked for as a shell would. Nothing of this process's but its
// environment and folder goes to it; what it writes goes to the file log_path.
// most_seconds: 0: no end. cancel: ends it when it becomes true; or null. kIo:
// it cannot be started, the reason named. Threads  any.
Result<ChildEnd> RunChild(const std::vector<std::string>& argv,
                          const std::string& log_path, double most_seconds,
                          const std::atomic<bool>* cancel = nullptr);

// For the child: it dies when its parent does, from now on. parent: who started
// it, as that one saw its own number: one that was gone before this call is
// told by another parent in its place, and the child dies at once.
void DieWithParent(pid_t parent);

// A folder of random name that only this user can enter, among those for
// temporary files. It goes with the object.
class PrivateFolder {
 public:
  // kIo, with the name of the place.
  static Result<PrivateFolder> Create();
  PrivateFolder(PrivateFolder&& other) noexcept;
  PrivateFolder& operator=(PrivateFolder&& other) = delete;
  ~PrivateFolder();

  // kIo, with the name of the place: so many bytes have no room there.
  Status CheckRoom(uint64_t num_bytes) const;

  std::string operator/(const std::string& name) const {
    return path_ + "/" + name;
  }
  const std::string& path() const { return path_; }

 private:
  explicit PrivateFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_CHILD_PROCESS_H_

// A process that may lock little, for tests.
#ifndef THERMOCLINE_OS_TEST_LOCK_LIMIT_H_
#define THERMOCLINE_OS_TEST_LOCK_LIMIT_H_

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace thermocline::os {

// While it lives this thread may lock `num_bytes` at most, root or not.
class LowLimit {
 public:
  explicit LowLimit(uint64_t num_bytes) {
    getrlimit(RLIMIT_MEMLOCK, &old_limit_);
    const rlimit low = {num_bytes, old_limit_.rlim_max};
    setrlimit(RLIMIT_MEMLOCK, &low);
    syscall(SYS_capget, &header_, old_capabilities_);
    __user_cap_data_struct fewer[2] = {old_capabilities_[0],
                                       old_capabilities_[1]};
    fewer[0].effective &= ~(1u << CAP_IPC_LOCK);
    syscall(SYS_capset, &header_, fewer);
  }
  ~LowLimit() {
    syscall(SYS_capset, &header_, old_capabilities_);
    setrlimit(RLIMIT_MEMLOCK, &old_limit_);
  }
  LowLimit(const LowLimit&) = delete;
  LowLimit& operator=(const LowLimit&) = delete;

 private:
  rlimit old_limit_ = {};
  __user_cap_header_struct header_ = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct old_capabilities_[2] = {};
};

}  // namespace thermocline::os

#endif  // THERMOCLINE_OS_TEST_LOCK_LIMIT_H_

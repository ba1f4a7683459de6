// A kernel that refuses what it can do, for tests.
#ifndef THERMOCLINE_STORAGE_TEST_REFUSED_CALLS_H_
#define THERMOCLINE_STORAGE_TEST_REFUSED_CALLS_H_

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>

namespace thermocline::storage {

// From now on the kernel refuses that call to this thread, with that error;
// given `second`, only where the call's second argument is that. False: it
// takes no such rule.
inline bool RefuseCalls(long call, std::optional<uint32_t> second,
                        int error_number) {
  const uint32_t refusal =
      SECCOMP_RET_ERRNO | static_cast<unsigned>(error_number);
  constexpr uint32_t kSecond = offsetof(seccomp_data, args[1]);
  // Where any will do, a comparison that always holds.
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call), 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kSecond),
      BPF_JUMP(BPF_JMP | (second ? BPF_JEQ : BPF_JGE) | BPF_K,
               second.value_or(0), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, refusal),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program = {std::size(rules), rules};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace thermocline::storage

#endif  // THERMOCLINE_STORAGE_TEST_REFUSED_CALLS_H_

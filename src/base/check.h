// TC_CHECK for programmer errors: always on, prints and aborts. TC_DCHECK for
// hot code: gone with NDEBUG. Never for what a file, flag or user can cause.
#ifndef THERMOCLINE_BASE_CHECK_H_
#define THERMOCLINE_BASE_CHECK_H_

namespace thermocline {
// Prints "file:line: check failed: condition" to stderr and aborts.
[[noreturn]] void CheckFailed(const char* file, int line,
                              const char* condition);
}  // namespace thermocline

#define TC_CHECK(condition) \
  ((condition) ? (void)0    \
               : ::thermocline::CheckFailed(__FILE__, __LINE__, #condition))

#ifdef NDEBUG
#define TC_DCHECK(condition) ((void)sizeof(!(condition)))
#else
#define TC_DCHECK(condition) TC_CHECK(condition)
#endif

#endif  // THERMOCLINE_BASE_CHECK_H_

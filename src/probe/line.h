// A cache line as the probes load it.
#ifndef THERMOCLINE_PROBE_LINE_H_
#define THERMOCLINE_PROBE_LINE_H_

#include <cstddef>
#include <cstdint>

namespace thermocline::probe {

inline constexpr size_t kLineWords = 8;  // 64 bytes
using Line = uint64_t __attribute__((vector_size(kLineWords * 8)));

}  // namespace thermocline::probe

#endif  // THERMOCLINE_PROBE_LINE_H_

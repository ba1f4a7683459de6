// What this machine's processor calls itself.
#ifndef THERMOCLINE_OS_CPU_NAME_H_
#define THERMOCLINE_OS_CPU_NAME_H_

#include <string>

namespace thermocline::os {

// The first "model name" of the kernel's list; empty where it gives none (many
// aarch64 machines) or cannot be read.
std::string ReadCpuName(const std::string& cpuinfo_path = "/proc/cpuinfo");

}  // namespace thermocline::os

#endif  // THERMOCLINE_OS_CPU_NAME_H_

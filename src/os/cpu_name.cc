#include "os/cpu_name.h"

#include <fstream>
#include <string_view>

namespace thermocline::os {

std::string ReadCpuName(const std::string& cpuinfo_path) {
  constexpr std::string_view kKey = "model name";
  std::ifstream file(cpuinfo_path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (!line.starts_with(kKey) || colon == std::string::npos) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

}  // namespace thermocline::os

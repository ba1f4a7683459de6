// What the program does for a compile in a process of its own, alone:
// ov_child_test.cc starts it.
#include <cstdio>
#include <string>

#include "npu/openvino.h"

namespace {

constexpr const char* kUsage =
    "npu_compile_child FOLDER\n"
    "Compiles the job that a test left in the folder. Exits 0 when the result "
    "is there, 1 with an error, 2 on wrong usage.\n";

int CompileIn(const std::string& folder) {
  const thermocline::Status status = thermocline::npu::RunCompileChild(folder);
  if (status.has_value()) return 0;
  std::fprintf(stderr, "npu_compile_child: %s\n",
               status.error().message.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  return CompileIn(argv[1]);
}

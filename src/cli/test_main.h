// Runs the whole program inside a test.
#ifndef THERMOCLINE_CLI_TEST_MAIN_H_
#define THERMOCLINE_CLI_TEST_MAIN_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "cli/cli.h"

namespace thermocline::cli {

struct MainResult {
  int exit_code;
  std::string out;
  std::string err;
};

inline std::string TempPath(const std::string& name) {
  return ::testing::TempDir() + "cli_" + std::to_string(::getpid()) + "_" +
         name;
}

// `args` are those behind the program's name.
inline MainResult RunMain(const std::vector<std::string>& args,
                          const std::string& stdin_bytes = "") {
  ::setenv("THERMOCLINE_PLANS", "none", 0);  // nothing is left behind
  const std::string stdin_path = TempPath("stdin");
  std::ofstream(stdin_path, std::ios::binary) << stdin_bytes;
  const int saved_stdin = ::dup(STDIN_FILENO);
  const int stdin_fd = ::open(stdin_path.c_str(), O_RDONLY);
  ::dup2(stdin_fd, STDIN_FILENO);
  ::close(stdin_fd);

  std::vector<const char*> argv = {"thermocline"};
  for (const std::string& arg : args) argv.push_back(arg.c_str());
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  MainResult result = {};
  result.exit_code = Main(static_cast<int>(argv.size()), argv.data());
  result.out = ::testing::internal::GetCapturedStdout();
  result.err = ::testing::internal::GetCapturedStderr();

  ::dup2(saved_stdin, STDIN_FILENO);
  ::close(saved_stdin);
  std::remove(stdin_path.c_str());
  return result;
}

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_TEST_MAIN_H_

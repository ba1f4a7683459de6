// A folder of its own for every test, removed afterwards.
#ifndef THERMOCLINE_OS_TEST_FOLDER_H_
#define THERMOCLINE_OS_TEST_FOLDER_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace thermocline::os {

class TestFolder {
 public:
  TestFolder() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::path(::testing::TempDir()) /
            (std::string("tc_") + test->test_suite_name() + "_" + test->name() +
             "_" + std::to_string(getpid()));
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  std::string operator/(const std::string& name) const {
    return (path_ / name).string();
  }
  std::string path() const { return path_.string(); }

  // Writes a file, making the folders on the way. Returns its path.
  std::string Write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << text;
    return *this / name;
  }

  static std::string Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  int num_entries() const {
    return static_cast<int>(
        std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::filesystem::path path_;
};

// While one lives, the process's working folder is no more. No other thread may
// use relative paths meanwhile.
class GoneWorkingFolder {
 public:
  // path: one that is not there.
  explicit GoneWorkingFolder(const std::string& path)
      : before_(std::filesystem::current_path()) {
    std::filesystem::create_directories(path);
    std::filesystem::current_path(path);
    std::filesystem::remove(path);
  }
  ~GoneWorkingFolder() { std::filesystem::current_path(before_); }
  GoneWorkingFolder(const GoneWorkingFolder&) = delete;
  GoneWorkingFolder& operator=(const GoneWorkingFolder&) = delete;

 private:
  std::filesystem::path before_;
};

}  // namespace thermocline::os

#endif  // THERMOCLINE_OS_TEST_FOLDER_H_

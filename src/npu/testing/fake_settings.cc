#include "npu/testing/fake_settings.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string_view>
#include <thread>

namespace thermocline::npu {
namespace {

std::string Setting(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

std::vector<std::string> Words(const std::string& list) {
  std::vector<std::string> words;
  std::istringstream stream(list);
  for (std::string word; std::getline(stream, word, ',');) {
    words.push_back(word);
  }
  return words;
}

std::mutex& WordsMutex() {
  static std::mutex mutex;
  return mutex;
}

std::string& LastWordsOfAll() {
  static std::string words;
  return words;
}

}  // namespace

std::string FakeVersion() {
  return Setting("FAKE_OV_VERSION", "2026.4.1-1-fake");
}

bool FakeTypesAreStrange() { return Setting("FAKE_OV_TYPES", "") == "strange"; }

std::vector<std::string> FakeDevices() {
  return Words(Setting("FAKE_OV_DEVICES", "CPU"));
}

bool FakeHasPlugin(const std::string& device) {
  const std::string kind = device.substr(0, device.find('.'));
  const auto is_kind = [&](const std::string& other) {
    return other.substr(0, other.find('.')) == kind;
  };
  return std::ranges::any_of(FakeDevices(), is_kind) ||
         std::ranges::any_of(Words(Setting("FAKE_OV_PLUGINS", "NPU")), is_kind);
}

int FakeFailure(const std::string& words) {
  const std::lock_guard lock(WordsMutex());
  LastWordsOfAll() = words;
  return kFakeFailed;
}

std::string FakeLastWords() {
  const std::lock_guard lock(WordsMutex());
  return LastWordsOfAll();
}

int FakeOutcome(const std::string& function) {
  const std::string wanted = Setting("FAKE_OV_FAIL", "");
  const std::string begin = function + "=";
  if (!wanted.starts_with(begin)) return kFakeOk;
  return FakeFailure("Exception from src/fake.cpp:1:\n" +
                     wanted.substr(begin.size()) + "\n\n");
}

void FakeHangOrCrash() {
  const std::string seconds = Setting("FAKE_OV_HANG", "");
  if (!Setting("FAKE_OV_CRASH", "").empty()) {
    const rlimit no_core = {};
    setrlimit(RLIMIT_CORE, &no_core);
    std::fputs("fake compiler: no way out\n", stderr);
    std::abort();
  }
  if (seconds.empty()) return;
  std::this_thread::sleep_for(
      std::chrono::duration<double>(std::stod(seconds)));
}

void FakeLog(const std::string& line) {
  const std::string path = Setting("FAKE_OV_LOG", "");
  if (!path.empty()) std::ofstream(path, std::ios::app) << line << "\n";
}

}  // namespace thermocline::npu

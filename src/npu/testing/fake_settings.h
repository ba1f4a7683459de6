// How the fake OpenVINO behaves: variables of the environment, so that
// processes of their own see them too. Each is read when it is needed.
//   FAKE_OV_VERSION  what it calls itself; "2026.4.1-1-fake" without
//   FAKE_OV_TYPES    "strange": element types in an order that never was
//   FAKE_OV_DEVICES  "CPU,NPU": what is there; without: CPU
//   FAKE_OV_PLUGINS  plugins that are there without a device; without: NPU
//   FAKE_OV_FAIL     "ov_core_compile_model=words": that function fails so
//   FAKE_OV_HANG     seconds that a compile takes longer
//   FAKE_OV_CRASH    any: a compile ends the process
//   FAKE_OV_LOG      a file that gets a line for each compile and import
#ifndef THERMOCLINE_NPU_TESTING_FAKE_SETTINGS_H_
#define THERMOCLINE_NPU_TESTING_FAKE_SETTINGS_H_

#include <string>
#include <vector>

namespace thermocline::npu {

std::string FakeVersion();
bool FakeTypesAreStrange();
std::vector<std::string> FakeDevices();
bool FakeHasPlugin(const std::string& device);

// OpenVINO's status codes that are used here.
inline constexpr int kFakeOk = 0;
inline constexpr int kFakeFailed = -1;

// Remembers the words for ov_get_last_err_msg.
int FakeFailure(const std::string& words);
std::string FakeLastWords();
// What FAKE_OV_FAIL says of the function; kFakeOk: nothing.
int FakeOutcome(const std::string& function);

// What a compile meets.
void FakeHangOrCrash();
void FakeLog(const std::string& line);

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_TESTING_FAKE_SETTINGS_H_

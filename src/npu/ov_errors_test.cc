#include "npu/ov_errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace thermocline::npu {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(OvErrorsTest, TheFirstLineIsTheFirstThatSaysSomething) {
  const std::pair<const char*, const char*> cases[] = {
      {"no more memory", "no more memory"},
      {"Exception from src/core.cpp:268:\nException from src/b.cpp:7:\n"
       "Device with \"FOO\" name is not registered\n\n\n",
       "Device with \"FOO\" name is not registered"},
      {"Check 'a == b' failed at src/c.cpp:12:\n  While validating node "
       "x\nmore",
       "While validating node x"},
      {"Exception from src/core.cpp:268:\n\n",
       "Exception from src/core.cpp:268:"},
      {"Exception from src/a.cpp:1:\nno compiler. Error: Exception from "
       "src/b.cpp:2:\nCannot load library x\n\n",
       "no compiler. Error: Cannot load library x"},
      {"", ""},
      {"bell\a and \x1b[1m", "bell  and  [1m"}};
  for (const auto& [words, line] : cases) {
    EXPECT_EQ(FirstLine(words), line);
  }
  EXPECT_EQ(FirstLine(std::string(5000, 'x')).size(), 403u);
}

struct Words {
  const char* words;
  ErrorCode code;
  const char* sentence;
};

// What OpenVINO 2024 to 2026 and its plugins were seen or are reported to say.
constexpr Words kWords[] = {
    {"Device with \"NPU\" name is not registered in the OpenVINO Runtime",
     ErrorCode::kNotFound, "no plugin"},
    {"VCL compiler loading failed, aborting. Error: x: Cannot load library "
     "\"a/libopenvino_intel_npu_compiler_loader.so\"",
     ErrorCode::kUnsupported, "NPU's compiler is not there"},
    {"Unsupported platform: 'AUTO_DETECT'", ErrorCode::kUnsupported,
     "there is no NPU"},
    {"no supported devices found", ErrorCode::kUnsupported,
     "no such device, or its driver"},
    {"Unsupported configuration key: FULL_DEVICE_NAME", ErrorCode::kUnsupported,
     "no such device, or its driver"},
    {"Can't import network: x. Device not found.", ErrorCode::kUnsupported,
     "no such device, or its driver"},
    {"Cannot load library \"a/libopenvino_intel_gpu_plugin.so\": "
     "libOpenCL.so.1: cannot open shared object file",
     ErrorCode::kUnsupported, "a library that its plugin or driver needs"},
    {"to_shape was called on a dynamic shape.", ErrorCode::kUnsupported,
     "became dynamic"},
    {"vpux: Got non broadcastable dimensions pair : '9223372036854775807' and "
     "'2'",
     ErrorCode::kUnsupported, "became dynamic"},
    {"L0 pfnCreate2 result: ZE_RESULT_ERROR_UNKNOWN, code 0x7ffffffe",
     ErrorCode::kIo, "its driver failed"},
    {"L0 result: ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, code 0x70000002",
     ErrorCode::kResourceExhausted, "driver has no more memory"},
    {"ZE_RESULT_ERROR_DEVICE_LOST", ErrorCode::kIo, "was reset"},
    {"std::bad_alloc", ErrorCode::kResourceExhausted, "no more memory"},
    {"Unsupported property NPU_TURBO by CPU plugin", ErrorCode::kUnsupported,
     "a setting"},
    {"Failed to compile Model0_FCEW000__0 for all devices in [NPU]",
     ErrorCode::kUnsupported, "does not take the graph"},
    {"the sky is falling", ErrorCode::kIo, "compiling: the sky is falling"},
};

TEST(OvErrorsTest, KnownWordsGetASentenceAndACode) {
  for (const Words& c : kWords) {
    const std::string words =
        fmt::format("Exception from src/a.cpp:1:\n{}\nmore\n", c.words);
    const Error error = OvError("NPU", "compiling", words);
    EXPECT_EQ(error.code, c.code) << error.message;
    EXPECT_THAT(error.message, HasSubstr(c.sentence));
    EXPECT_THAT(error.message, HasSubstr("NPU: compiling: "));
    EXPECT_THAT(error.message, HasSubstr(c.words));
    EXPECT_THAT(error.message, Not(HasSubstr("src/a.cpp")));
  }
  EXPECT_TRUE(SaysNotRegistered(kWords[0].words));
  EXPECT_FALSE(SaysNotRegistered(kWords[1].words));
}

TEST(OvErrorsTest, AStatusWithoutWordsIsNamed) {
  OvApi api;  // of a version without words
  EXPECT_EQ(LastWords(api, -5), "status -5, not found");
  EXPECT_EQ(LastWords(api, -18), "status -18");
  api.last_words = [] { return static_cast<const char*>(nullptr); };
  EXPECT_EQ(LastWords(api, -1), "status -1, general error");
}

}  // namespace
}  // namespace thermocline::npu

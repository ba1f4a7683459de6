// For tests: OpenVINO itself, where it is.
#ifndef THERMOCLINE_NPU_TEST_REAL_OPENVINO_H_
#define THERMOCLINE_NPU_TEST_REAL_OPENVINO_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "npu/openvino.h"

namespace thermocline::npu {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TC_IS_SANITIZED 1
#endif
#endif

// $THERMOCLINE_OPENVINO, or what ./test has fetched; empty: neither.
inline std::string RealLibrary() {
  const char* named = std::getenv("THERMOCLINE_OPENVINO");
  if (named != nullptr && *named != '\0') return named;
  const std::string fetched = TC_SOURCE_DIR "/build/openvino";
  return std::filesystem::exists(fetched) ? fetched : "";
}

// One library, core and device for all cases: the CPU's plugin takes a while to
// load.
class RealOpenVinoTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
#ifndef TC_IS_SANITIZED
    if (RealLibrary().empty()) return;
    auto openvino = OpenVino::Load({.library = RealLibrary()});
    ASSERT_TRUE(openvino.has_value()) << openvino.error().message;
    openvino_ = *openvino;
    auto cpu = openvino_->Open("CPU");
    ASSERT_TRUE(cpu.has_value()) << cpu.error().message;
    cpu_ = *cpu;
#endif
  }
  static void TearDownTestSuite() {
    cpu_.reset();
    openvino_.reset();
  }
  void SetUp() override {
#ifdef TC_IS_SANITIZED
    GTEST_SKIP() << "OpenVINO's library is not built for sanitizers, which "
                    "report its memory and threads as faults";
#endif
    if (RealLibrary().empty()) {
      GTEST_SKIP() << "OpenVINO's library is not there: "
                      "tools/fetch_openvino.sh fetches it";
    }
    ASSERT_NE(cpu_, nullptr);
  }

  static bool Has(const std::string& device) {
    const auto devices = openvino_->Devices();
    for (const OpenVinoDevice& there : *devices) {
      if (there.name == device) return true;
    }
    return false;
  }

  inline static std::shared_ptr<OpenVino> openvino_;
  inline static std::shared_ptr<StaticDevice> cpu_;
};

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_TEST_REAL_OPENVINO_H_

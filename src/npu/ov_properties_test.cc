#include "npu/ov_properties.h"

#include <gtest/gtest.h>

namespace thermocline::npu {
namespace {

constexpr const char* kAll =
    "FULL_DEVICE_NAME PERFORMANCE_HINT EXECUTION_MODE_HINT "
    "INFERENCE_PRECISION_HINT DYNAMIC_QUANTIZATION_GROUP_SIZE "
    "KV_CACHE_PRECISION CACHE_DIR";

std::string Joined(const OvProperties& properties) {
  std::string text;
  for (const auto& [key, value] : properties) text += key + "=" + value + " ";
  return text;
}

TEST(OvPropertiesTest, NamesAreTakenApart) {
  EXPECT_TRUE(ParseOvDevice("NPU").is_npu());
  EXPECT_TRUE(ParseOvDevice("NPU.0").is_npu());
  EXPECT_FALSE(ParseOvDevice("CPU").is_npu());
  const OvDeviceName npuw = ParseOvDevice("NPU:npuw-cpu");
  EXPECT_EQ(npuw.plugin, "NPU");
  EXPECT_TRUE(npuw.is_npuw);
  EXPECT_FALSE(npuw.is_npu());
  EXPECT_EQ(ParseOvDevice("GPU.1").KindOf(), "GPU");
}

TEST(OvPropertiesTest, EachDeviceIsToldWhatItKnows) {
  const std::string mode_params =
      "NPU_COMPILATION_MODE_PARAMS=compute-layers-with-higher-precision="
      "Sqrt,Power,ReduceMean,Add_RMSNorm ";
  struct Case {
    const char* device;
    bool is_exact;
    const char* supported;
    std::string properties;
  };
  const std::string exact =
      "EXECUTION_MODE_HINT=ACCURACY INFERENCE_PRECISION_HINT=f32 "
      "DYNAMIC_QUANTIZATION_GROUP_SIZE=0 KV_CACHE_PRECISION=f16 ";
  for (const Case& c : {
           Case{"CPU", false, kAll,
                "PERFORMANCE_HINT=LATENCY INFERENCE_NUM_THREADS=3 "},
           Case{"CPU", true, kAll, exact + "INFERENCE_NUM_THREADS=3 "},
           Case{"CPU", true, "EXECUTION_MODE_HINT",
                "EXECUTION_MODE_HINT=ACCURACY INFERENCE_NUM_THREADS=3 "},
           Case{"GPU.1", true, kAll, exact + "CACHE_DIR=kept "},
           Case{"NPU", false, "PERFORMANCE_HINT, X",
                "PERFORMANCE_HINT=LATENCY " + mode_params + "CACHE_DIR=kept "},
           Case{"NPU", true, "MY_EXECUTION_MODE_HINT",
                mode_params + "CACHE_DIR=kept "},
           Case{"NPU:npuw-cpu", false, kAll,
                "NPU_USE_NPUW=YES NPUW_DEVICES=CPU CACHE_DIR=kept "},
       }) {
    const CompileOptions options = {
        .is_exact = c.is_exact, .num_threads = 3, .cache_dir = "kept"};
    EXPECT_EQ(
        Joined(PropertiesOf(ParseOvDevice(c.device), options, c.supported)),
        c.properties)
        << c.device;
  }
}

TEST(OvPropertiesTest, WhatIsNotAskedForIsTheDevicesChoice) {
  for (const char* device : {"CPU", "GPU"}) {
    EXPECT_EQ(Joined(PropertiesOf(ParseOvDevice(device), {}, "")), "");
  }
}

}  // namespace
}  // namespace thermocline::npu

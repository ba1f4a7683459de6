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

struct PropertyCase {
  const char* device;
  bool is_exact;
  const char* supported;
  std::string properties;
  bool is_one_row = false;
};

const std::string kModeParams =
    "NPU_COMPILATION_MODE_PARAMS=compute-layers-with-higher-precision="
    "Sqrt,Power,ReduceMean,Add_RMSNorm ";
const std::string kExactHints =
    "EXECUTION_MODE_HINT=ACCURACY INFERENCE_PRECISION_HINT=f32 "
    "DYNAMIC_QUANTIZATION_GROUP_SIZE=0 KV_CACHE_PRECISION=f16 ";

TEST(OvPropertiesTest, EachDeviceIsToldWhatItKnows) {
  for (const PropertyCase& c : {
           PropertyCase{"CPU", false, kAll,
                        "PERFORMANCE_HINT=LATENCY INFERENCE_NUM_THREADS=3 "},
           PropertyCase{"CPU", true, kAll,
                        kExactHints + "INFERENCE_NUM_THREADS=3 "},
           PropertyCase{
               "CPU", true, "EXECUTION_MODE_HINT",
               "EXECUTION_MODE_HINT=ACCURACY INFERENCE_NUM_THREADS=3 "},
           PropertyCase{"CPU", false, kAll,
                        "PERFORMANCE_HINT=LATENCY INFERENCE_PRECISION_HINT=f32 "
                        "INFERENCE_NUM_THREADS=3 ",
                        true},
           PropertyCase{"CPU", false, "PERFORMANCE_HINT",
                        "PERFORMANCE_HINT=LATENCY INFERENCE_NUM_THREADS=3 ",
                        true},
           PropertyCase{"GPU.1", false, kAll,
                        "PERFORMANCE_HINT=LATENCY CACHE_DIR=kept ", true},
           PropertyCase{"GPU.1", true, kAll, kExactHints + "CACHE_DIR=kept "},
           PropertyCase{
               "NPU", false, "PERFORMANCE_HINT, X",
               "PERFORMANCE_HINT=LATENCY " + kModeParams + "CACHE_DIR=kept "},
           PropertyCase{"NPU", true, "MY_EXECUTION_MODE_HINT",
                        kModeParams + "CACHE_DIR=kept "},
           PropertyCase{"NPU:npuw-cpu", false, kAll,
                        "NPU_USE_NPUW=YES NPUW_DEVICES=CPU CACHE_DIR=kept "},
       }) {
    const CompileOptions options = {.is_exact = c.is_exact,
                                    .is_one_row = c.is_one_row,
                                    .num_threads = 3,
                                    .cache_dir = "kept"};
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

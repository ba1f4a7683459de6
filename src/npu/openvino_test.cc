#include "npu/openvino.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "npu/test_openvino.h"
#include "os/test_folder.h"

namespace thermocline::npu {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(OpenVinoTest, TheLibraryTellsWhatItIsAndHas) {
  const TestEnvironment fake({{"FAKE_OV_DEVICES", "CPU,GPU.0,GPU.1"}});
  const auto openvino = LoadFake();
  EXPECT_EQ(openvino->version(), "2026.4.1");
  EXPECT_EQ(openvino->path(), TC_FAKE_OPENVINO);
  const auto devices = openvino->Devices();
  ASSERT_TRUE(devices.has_value());
  ASSERT_EQ(devices->size(), 3u);
  EXPECT_EQ((*devices)[1].name, "GPU.0");
  EXPECT_EQ((*devices)[1].full_name, "Fake GPU.0");
  const TestEnvironment fail(
      {{"FAKE_OV_FAIL", "ov_core_get_available_devices=no"}});
  EXPECT_EQ(openvino->Devices().error().code, ErrorCode::kIo);
}

TEST(OpenVinoTest, DevicesSayWhoTheyAre) {
  const TestEnvironment fake({{"FAKE_OV_DEVICES", "CPU,GPU.0,GPU.1"}});
  for (const auto& [name, described] :
       {std::pair("CPU", "OpenVINO 2026.4.1 on CPU (Fake CPU)"),
        std::pair("GPU", "OpenVINO 2026.4.1 on GPU (Fake GPU.0)"),
        std::pair("GPU.1", "OpenVINO 2026.4.1 on GPU.1 (Fake GPU.1)"),
        std::pair("NPU:npuw-cpu",
                  "OpenVINO 2026.4.1 on NPU:npuw-cpu (the "
                  "NPU's partitioning, on the CPU)")}) {
    const auto device = LoadFake()->Open(name);
    ASSERT_TRUE(device.has_value()) << device.error().message;
    EXPECT_EQ((*device)->name(), name);
    EXPECT_EQ((*device)->Describe(), described);
  }
}

TEST(OpenVinoTest, DevicesThatAreNotThereSayWhyAndWhatIs) {
  struct Case {
    const char* devices;
    const char* plugins;
    const char* asked;
    ErrorCode code;
    const char* message;
  };
  for (const Case& c :
       {Case{"CPU", "", "TPU", ErrorCode::kNotFound, "no device \"TPU\""},
        Case{"CPU", "", "NPU", ErrorCode::kNotFound, "no device \"NPU\""},
        Case{"CPU", "", "NPU:npuw-cpu", ErrorCode::kNotFound, "no device"},
        Case{"CPU", "NPU", "NPU", ErrorCode::kUnsupported, "its driver"},
        Case{"CPU,GPU", "", "GPU.3", ErrorCode::kNotFound, "no device"},
        Case{"CPU", "", "", ErrorCode::kNotFound, "no device \"\""}}) {
    const TestEnvironment fake(
        {{"FAKE_OV_DEVICES", c.devices}, {"FAKE_OV_PLUGINS", c.plugins}});
    const auto device = LoadFake()->Open(c.asked);
    ASSERT_FALSE(device.has_value()) << c.asked;
    EXPECT_EQ(device.error().code, c.code) << c.asked;
    EXPECT_THAT(
        device.error().message,
        AllOf(HasSubstr(c.message), HasSubstr("OpenVINO 2026.4.1 has CPU")));
  }
}

TEST(OpenVinoTest, CompilesAreToldWhatTheOptionsSay) {
  const os::TestFolder folder;
  const TestEnvironment fake({{"FAKE_OV_LOG", folder / "log"}});
  const auto device = *LoadFake()->Open("CPU");
  const CompileOptions exact = {
      .is_exact = true, .num_threads = 2, .cache_dir = folder / "cache"};
  for (const CompileOptions& options : {CompileOptions{}, exact}) {
    const auto program = device->Compile(AddOne(), options);
    ASSERT_TRUE(program.has_value()) << program.error().message;
    EXPECT_EQ(RunAddOne(**program), (std::vector<float>{2.0f, 3.0f}));
  }
  EXPECT_EQ(os::TestFolder::Read(folder / "log"),
            "compile CPU PERFORMANCE_HINT=LATENCY\n"
            "compile CPU EXECUTION_MODE_HINT=ACCURACY "
            "INFERENCE_PRECISION_HINT=f32 DYNAMIC_QUANTIZATION_GROUP_SIZE=0 "
            "KV_CACHE_PRECISION=f16 INFERENCE_NUM_THREADS=2\n");
}

// The library, the core and the program's graph go when the last user does.
TEST(OpenVinoTest, ProgramsOutliveTheirDevice) {
  std::unique_ptr<StaticProgram> program;
  {
    const auto device = *LoadFake()->Open("CPU");
    program = *device->Compile(AddOne(), {});
  }
  EXPECT_EQ(RunAddOne(*program), (std::vector<float>{2.0f, 3.0f}));
}

TEST(OpenVinoTest, TheNpusPartitioningNeedsNoNpu) {
  const os::TestFolder folder;
  const TestEnvironment fake({{"FAKE_OV_LOG", folder / "log"}});
  const auto program =
      (*LoadFake({"false"})->Open("NPU:npuw-cpu"))->Compile(AddOne(), {});
  ASSERT_TRUE(program.has_value()) << program.error().message;
  EXPECT_EQ(os::TestFolder::Read(folder / "log"),
            "compile NPU NPU_USE_NPUW=YES NPUW_DEVICES=CPU\n");
}

}  // namespace
}  // namespace thermocline::npu

#include "npu/ov_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "npu/test_openvino.h"

namespace thermocline::npu {
namespace {

using ::testing::HasSubstr;

TEST(OvApiTest, VersionsAreRead) {
  const std::pair<const char*, OvNumbers> good[] = {
      {"2026.4.1-22982-0a1b2c-releases/2026/4", {2026, 4, 1}},
      {"2023.2.0", {2023, 2, 0}},
      {"2025.10.12-x", {2025, 10, 12}}};
  for (const auto& [build, numbers] : good) {
    EXPECT_EQ(ParseOvVersion(build), numbers) << build;
  }
  for (const char* bad :
       {"", "2026", "2026.4", "2026.4.", "2026.4.x", "custom", "2026.-4.1",
        "2026.4.1x", "26.4.1", "9999.1.1", "99999999999.1.1"}) {
    EXPECT_EQ(ParseOvVersion(bad), std::nullopt) << bad;
  }
}

TEST(OvApiTest, ElementTypesAreNumberedAsTheirVersionDoes) {
  struct Case {
    const char* version;
    std::array<uint32_t, 8> types;  // f32 f16 i64 i8 u8 i4 u4 boolean
  };
  for (const Case& c : {Case{"2026.4.1-1", {4, 3, 10, 7, 16, 6, 14, 1}},
                        Case{"2025.4.0-1", {5, 4, 11, 8, 17, 7, 15, 2}},
                        Case{"2023.2.0-1", {5, 4, 11, 8, 14, 7, 13, 2}}}) {
    const TestEnvironment fake({{"FAKE_OV_VERSION", c.version}});
    const auto api = LoadOvApi(TC_FAKE_OPENVINO);
    ASSERT_TRUE(api.has_value()) << api.error().message;
    EXPECT_EQ((*api)->types, c.types) << c.version;
    EXPECT_EQ((*api)->NumberOf(Element::kF16), c.types[1]);
    EXPECT_EQ((*api)->path, TC_FAKE_OPENVINO);
  }
}

TEST(OvApiTest, ALibraryThatWillNotDoIsRefusedWithTheReason) {
  struct Case {
    const char* library;
    const char* name;
    const char* value;
    const char* reason;
  };
  for (const Case& c :
       {Case{TC_FAKE_OPENVINO, "FAKE_OV_VERSION", "2023.1.0-1", "too old"},
        Case{TC_FAKE_OPENVINO, "FAKE_OV_VERSION", "mine", "version \"mine\""},
        Case{TC_FAKE_OPENVINO, "FAKE_OV_FAIL", "ov_get_openvino_version=no",
             "does not tell its version"},
        Case{TC_FAKE_OPENVINO, "FAKE_OV_TYPES", "strange", "element types"},
        Case{TC_FAKE_OPENVINO_LACKING, "FAKE_OV_TYPES", "",
             "it lacks ov_infer_request_infer"}}) {
    const TestEnvironment fake({{c.name, c.value}});
    const auto api = LoadOvApi(c.library);
    ASSERT_FALSE(api.has_value()) << c.reason;
    EXPECT_EQ(api.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(api.error().message, HasSubstr(c.reason));
  }
}

}  // namespace
}  // namespace thermocline::npu

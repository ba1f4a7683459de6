#include "cli/static_device_opener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace thermocline::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(StaticDeviceOpenerTest, NamesAreInCapitalsButForOurs) {
  std::vector<std::string> names;
  ASSERT_TRUE(
      StoreStaticDevices("npu,Gpu.1,npu:npuw-cpu,reference,host", true, names));
  EXPECT_THAT(names,
              ElementsAre("NPU", "GPU.1", "NPU:npuw-cpu", "reference", "host"));
}

TEST(StaticDeviceOpenerTest, ListsThatMakeNoSense) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "an empty name"},
      {"NPU,,CPU", "an empty name"},
      {"NPU,", "an empty name"},
      {"host,CPU", "nothing behind it"}};
  for (const auto& [text, what] : cases) {
    std::vector<std::string> names;
    const Status status = StoreStaticDevices(text, true, names);
    ASSERT_FALSE(status.has_value()) << text;
    EXPECT_THAT(status.error().message, HasSubstr(what));
  }
  std::vector<std::string> names;
  const Status status = StoreStaticDevices("CPU,host", false, names);
  ASSERT_FALSE(status.has_value());
  EXPECT_THAT(status.error().message, HasSubstr("has the host"));
}

TEST(StaticDeviceOpenerTest, TheReferenceNeedsNoLibrary) {
  StaticDeviceOpener opener("/no/such/library.so");
  ASSERT_TRUE(opener.Open("reference").has_value());
  for (int i = 0; i < 2; ++i) {
    const auto device = opener.Open("CPU");
    ASSERT_FALSE(device.has_value());
    EXPECT_THAT(device.error().message, HasSubstr("/no/such/library.so"));
  }
}

}  // namespace
}  // namespace thermocline::cli

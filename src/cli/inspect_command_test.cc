#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/test_main.h"

namespace thermocline::cli {
namespace {

std::string InTestData(const std::string& name) {
  return std::string(TC_SOURCE_DIR) + "/testdata/" + name;
}

using ::testing::HasSubstr;

TEST(InspectCommandTest, PrintsTextOrJson) {
  const std::string model = InTestData("golden/qwen2-bias-f16.gguf");
  const MainResult text = RunMain({"inspect", model});
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("architecture    qwen2\n"));
  const MainResult json = RunMain({"inspect", model, "--json"});
  ASSERT_EQ(json.exit_code, 0) << json.err;
  EXPECT_THAT(json.out, HasSubstr("\"architecture\": \"qwen2\""));
}

TEST(InspectCommandTest, NamesAMissingFile) {
  const MainResult result = RunMain({"inspect", "no/such.gguf"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("no/such.gguf"));
}

}  // namespace
}  // namespace thermocline::cli

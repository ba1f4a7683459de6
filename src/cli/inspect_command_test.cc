#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "cli/test_files.h"
#include "cli/test_main.h"

namespace thermocline::cli {
namespace {

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

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) {
    ++count;
  }
  return count;
}

// A model with a special token that it does not have, and the same of an
// unknown architecture, whose parts are read one by one.
TEST(InspectCommandTest, WarnsOnce) {
  std::ifstream file(kStories, std::ios::binary);
  std::string model{std::istreambuf_iterator<char>(file), {}};
  const std::string key = "tokenizer.ggml.bos_token_id";
  const size_t at = model.find(key);
  ASSERT_NE(at, std::string::npos);
  constexpr uint32_t kNoToken = 99'999;
  std::memcpy(model.data() + at + key.size() + sizeof(uint32_t), &kNoToken,
              sizeof(kNoToken));
  std::string unknown = model;
  const std::string name = "general.architecture";
  unknown[unknown.find(name) + name.size() + 12] = 'x';

  const std::string path = TempPath("warns.gguf");
  for (const std::string& bytes : {model, unknown}) {
    std::ofstream(path, std::ios::binary) << bytes;
    const MainResult result = RunMain({"inspect", path});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(Count(result.err, "99999"), 1u) << result.err;
    EXPECT_EQ(Count(result.err, "warning"), 1u) << result.err;
    EXPECT_THAT(result.out, HasSubstr("512 tokens"));
    EXPECT_THAT(result.out,
                HasSubstr(bytes == model ? "\nruns" : "\ncannot run"));
  }
  std::remove(path.c_str());
}

TEST(InspectCommandTest, NamesAMissingFile) {
  const MainResult result = RunMain({"inspect", "no/such.gguf"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("no/such.gguf"));
}

}  // namespace
}  // namespace thermocline::cli

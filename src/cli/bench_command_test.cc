#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/test_files.h"
#include "cli/test_main.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(BenchCommandTest, PrintsTheTableAndTheBuild) {
  const MainResult result = RunMain(
      {"bench", "-m", kLlamaQ4_0, "-p", "8", "-n", "4", "-r", "1", "-t", "1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("| model "));
  EXPECT_THAT(result.out, HasSubstr(" pp8 |"));
  EXPECT_THAT(result.out, HasSubstr(" tg4 |"));
  EXPECT_THAT(result.out, HasSubstr("build: thermocline " TC_VERSION));
  EXPECT_THAT(result.out, HasSubstr(", ffn dense, weights mapped\n"));
}

TEST(BenchCommandTest, PrintsWhatLlamaBenchsReadersExpect) {
  const MainResult result = RunMain({"bench", "-m", kLlamaQ4_0, "-p", "0", "-n",
                                     "4", "-r", "2", "-t", "1", "-o", "csv"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, StartsWith("build_commit,cpu_info,model_filename,"));
  EXPECT_THAT(result.out, HasSubstr("\n\"" TC_VERSION "\",\""));
}

TEST(BenchCommandTest, ListsAreGivenByCommasOrByRepeating) {
  const MainResult result =
      RunMain({"bench", "-m", kLlamaQ4_0, "-p", "8", "-p", "16", "-n", "2,3",
               "-n", "4", "-r", "1", "-t", "1", "-ngl", "0"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const char* test : {" pp8 |", " pp16 |", " tg2 |", " tg3 |", " tg4 |"}) {
    EXPECT_THAT(result.out, HasSubstr(test));
  }
  const MainResult refused =
      RunMain({"bench", "-m", kLlamaQ4_0, "-ngl", "99", "--device", "none"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("-ngl is for a device"));
}

TEST(BenchCommandTest, NoThreadsAreOnePerCore) {
  const auto threads_of = [](std::vector<std::string> more) {
    std::vector<std::string> args = {"bench", "-m", kLlamaQ4_0, "-p",
                                     "0",     "-n", "2",        "-r",
                                     "1",     "-o", "json"};
    args.insert(args.end(), more.begin(), more.end());
    const MainResult result = RunMain(args);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out)[0]["n_threads"].get<int>();
  };
  EXPECT_GE(threads_of({"-t", "0"}), 1);
  EXPECT_EQ(threads_of({"-t", "0"}), threads_of({}));
}

// A copy of the model whose context is 64 positions.
std::string CopyWithSmallContext() {
  std::ifstream file(kLlamaQ4_0, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  const std::string key = "llama.context_length";
  const uint32_t context = 64;
  // Behind the key: its type, u32, then the value.
  std::memcpy(bytes.data() + bytes.find(key) + key.size() + sizeof(uint32_t),
              &context, sizeof(context));
  const std::string path = TempPath("context64.gguf");
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

TEST(BenchCommandTest, OnlyDefaultsGiveWayToASmallContext) {
  const std::string model = CopyWithSmallContext();
  const MainResult capped =
      RunMain({"bench", "-m", model, "-r", "1", "-t", "1"});
  ASSERT_EQ(capped.exit_code, 0) << capped.err;
  EXPECT_THAT(capped.err, HasSubstr("-p 64 instead of 512"));
  EXPECT_THAT(capped.out, HasSubstr(" pp64 |"));
  EXPECT_THAT(capped.out, HasSubstr(" tg64 |"));
  const MainResult asked =
      RunMain({"bench", "-m", model, "-p", "65", "-n", "0", "-r", "1"});
  EXPECT_EQ(asked.exit_code, 1);
  EXPECT_THAT(asked.err, HasSubstr("pp65"));
  EXPECT_THAT(asked.err, HasSubstr("context is 64"));
  std::remove(model.c_str());
}

}  // namespace
}  // namespace thermocline::cli

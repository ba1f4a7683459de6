#include "planner/storage_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "os/test_folder.h"
#include "planner/test_storage.h"

namespace thermocline::planner {
namespace {

using ::testing::HasSubstr;

StoragePlanFile TestPlanFile() {
  return {.model = {.architecture = "llama",
                    .name = "ti\"ny",
                    .num_layers = 2,
                    .width = 64,
                    .ffn_width = 100,
                    .hash = 0xfedcba9876543210},
          .machine = "a PC, 4 cores",
          .budget = 1 << 30,
          .context = 256,
          .mode = "fast",
          .unit = "records",
          .policy = "slow",
          .compute_cpus = {0, 1, 2},
          .io_cpus = {7},
          .cache_bytes = 1 << 20,
          .seconds = 0.0125,
          .num_missed = 812.5,
          .read_bytes = 3.25e6};
}

std::string Changed(std::string text, const std::string& from,
                    const std::string& to) {
  const size_t found = text.find(from);
  EXPECT_NE(found, std::string::npos) << from;
  if (found != std::string::npos) text.replace(found, from.size(), to);
  return text;
}

TEST(StorageFiles, ComeBackEqual) {
  const auto plan = ParseStoragePlan(FormatStoragePlan(TestPlanFile()), "x");
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  EXPECT_EQ(*plan, TestPlanFile());
  const auto phone =
      ParseStorageMachine(FormatStorageMachine(TestPhone()), "x");
  ASSERT_TRUE(phone.has_value()) << phone.error().message;
  EXPECT_EQ(*phone, TestPhone());
  EXPECT_TRUE(IsStoragePlan(FormatStoragePlan(TestPlanFile())));
  EXPECT_FALSE(IsStoragePlan(FormatStorageMachine(TestPhone())));
  EXPECT_TRUE(IsStorageMachine(FormatStorageMachine(TestPhone())));
  EXPECT_FALSE(IsStoragePlan("{\"format\": \"thermocline-plan\"}"));
}

TEST(StorageFiles, AreWrittenAndRead) {
  const os::TestFolder folder;
  const std::string path = folder.path() + "/plan.json";
  ASSERT_TRUE(WriteStoragePlan(TestPlanFile(), path).has_value());
  EXPECT_EQ(ReadStoragePlan(path).value(), TestPlanFile());
  ASSERT_TRUE(WriteStorageMachine(TestPhone(), path).has_value());
  EXPECT_EQ(ReadStorageMachine(path).value(), TestPhone());
  EXPECT_EQ(ReadStoragePlan(path + "none").error().code, ErrorCode::kNotFound);
}

TEST(StorageFiles, RefuseWhatIsWrong) {
  const std::string plan = FormatStoragePlan(TestPlanFile());
  struct Row {
    std::string text;
    const char* message;
  };
  for (const Row& row :
       {Row{plan.substr(0, plan.size() / 2), "cut short"},
        Row{"", "not valid JSON"}, Row{"[]", "not a JSON object"},
        Row{Changed(plan, "thermocline-storage-plan", "other"),
            "\"thermocline-storage-plan\""},
        Row{Changed(plan, "\"version\": 1", "\"version\": 2"),
            "a newer one may read it"},
        Row{Changed(plan, "\"unit\": \"records\"", "\"unit\": 3"),
            "key \"unit\" must be a text"},
        Row{Changed(plan, "\"0-2\"", "\"2-0\""), "key \"compute_cpus\""},
        Row{Changed(plan, "\"0-2\"", "\"\""), "one CPU at least"},
        Row{Changed(plan, "\"0-2\"", "\"99999\""), "key \"compute_cpus\""},
        Row{Changed(plan, "0.0125", "-1"), "predicted.seconds_per_token"},
        Row{Changed(plan, "\"mode\"", "\"mood\""), "\"mode\" is missing"},
        Row{Changed(plan, "\"budget_bytes\"", "\"more\": 1, \"budget_bytes\""),
            "key \"more\" is unknown; the keys are those of "
            "docs/formats/storage-plan.md"},
        Row{Changed(plan, "\"mode\"", "\"unit\": 1, \"mode\""), "twice"}}) {
    const auto parsed = ParseStoragePlan(row.text, "a.json");
    ASSERT_FALSE(parsed.has_value()) << row.message;
    EXPECT_THAT(parsed.error().message, HasSubstr("a.json"));
    EXPECT_THAT(parsed.error().message, HasSubstr(row.message));
  }
}

TEST(StorageFiles, RefuseMachinesThatAreWrong) {
  const std::string phone = FormatStorageMachine(TestPhone());
  struct Row {
    std::string text;
    const char* message;
  };
  for (const Row& row :
       {Row{phone.substr(0, phone.size() - 3), "cut short"},
        Row{Changed(phone, "\"cpu\": 1", "\"cpu\": 0"), "CPU 0 is there twice"},
        Row{Changed(phone, "\"read_share\": 0.6", "\"read_share\": 0"),
            "cores[0].read_share"},
        Row{Changed(phone, "\"threads\": 4", "\"threads\": 1"),
            "memory[1].threads"},
        Row{Changed(phone, "\"random\": false", "\"random\": 0"),
            "reads[0].random"}}) {
    const auto parsed = ParseStorageMachine(row.text, "b.json");
    ASSERT_FALSE(parsed.has_value()) << row.message;
    EXPECT_THAT(parsed.error().message, HasSubstr("b.json"));
    EXPECT_THAT(parsed.error().message, HasSubstr(row.message));
  }
}

// The examples of docs/formats/storage-plan.md.
TEST(StorageFiles, TheDocumentsExamplesAreRead) {
  std::ifstream in(std::string(TC_SOURCE_DIR) +
                   "/docs/formats/storage-plan.md");
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  size_t num_read = 0;
  for (size_t at = text.find("```json\n"); at != std::string::npos;
       at = text.find("```json\n", at + 1)) {
    const size_t begin = at + 8;
    const std::string example =
        text.substr(begin, text.find("```", begin) - begin);
    if (IsStoragePlan(example)) {
      EXPECT_TRUE(ParseStoragePlan(example, "plan").has_value());
      EXPECT_EQ(FormatStoragePlan(ParseStoragePlan(example, "plan").value()),
                example);
    } else {
      const auto machine = ParseStorageMachine(example, "machine");
      ASSERT_TRUE(machine.has_value()) << machine.error().message;
    }
    ++num_read;
  }
  EXPECT_EQ(num_read, 2u);
}

}  // namespace
}  // namespace thermocline::planner

#include "cli/stream_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/units.h"
#include "cli/test_files.h"
#include "cli/test_main.h"
#include "model/config.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;

TEST(BalanceFlagTest, TakesPoliciesAndWordsForThem) {
  CLI::App app;
  std::string policy = "?";
  bool deterministic = false;
  AddBalanceFlags(app, policy, deterministic);
  const struct {
    const char* text;
    const char* policy;
  } rows[] = {{"auto", ""}, {"off", "static"}, {"lru", "lru"}};
  for (const auto& row : rows) {
    app.parse(std::string("--balance ") + row.text);
    EXPECT_EQ(policy, row.policy);
    EXPECT_FALSE(deterministic);
  }
  app.parse("--deterministic");
  EXPECT_TRUE(deterministic);
}

TEST(BalanceFlagTest, NamesThoseThereAre) {
  for (const char* wrong : {"x", "lru:x=1", ""}) {
    const MainResult result =
        RunMain({"run", "-m", "m", "-p", "a", "--balance", wrong});
    EXPECT_EQ(result.exit_code, 2) << wrong;
  }
  const MainResult result =
      RunMain({"run", "-m", "m", "-p", "a", "--balance", "x"});
  EXPECT_THAT(result.err, HasSubstr("two-queue"));
}

TEST(UnitFlagTest, NamesThoseThereAre) {
  const MainResult result =
      RunMain({"run", "-m", "m", "-p", "a", "--unit", "layers"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("'layers' is not one of records, experts"));
}

TEST(StorageFlagTest, TakesOneOrMany) {
  using engine::StorageMode;
  using Modes = std::vector<StorageMode>;
  EXPECT_EQ(ParseStorageModes("matrix", false).value(),
            Modes{StorageMode::kMatrix});
  EXPECT_EQ(ParseStorageModes("mmap,cluster,mmap", true).value(),
            (Modes{StorageMode::kMmap, StorageMode::kCluster}));
  EXPECT_EQ(ParseStorageModes("all", true).value().size(),
            engine::StorageModes().size());
  const struct {
    const char* text;
    bool takes_many;
  } wrong[] = {{"all", false}, {"", false},     {"", true},
               {"disk", true}, {"mmap,", true}, {"mmap,matrix", false}};
  for (const auto& test : wrong) {
    const auto modes = ParseStorageModes(test.text, test.takes_many);
    ASSERT_FALSE(modes) << test.text;
    EXPECT_THAT(modes.error().message, HasSubstr("cluster, matrix"));
  }
  const MainResult result =
      RunMain({"run", "-m", "m", "-p", "a", "--storage", "all"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("'all' is not one of cluster"));
}

}  // namespace
}  // namespace thermocline::cli

#include "cli/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace thermocline::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Parses `args` (in order) and returns the error's text, "" if there is none.
std::string Parse(CLI::App& app, std::vector<std::string> args) {
  std::reverse(args.begin(), args.end());  // CLI11 takes them from the back
  try {
    app.parse(args);
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
  return "";
}

struct Flags {
  CLI::App app{"test", "test"};
  int64_t n = 7;
  std::optional<int64_t> c;
  std::vector<int64_t> list = {1};
  float x = 0.5f;
  std::optional<std::string> text;
  DType dtype = DType::kF16;

  Flags() {
    AddInt(app, "-n,--num", n, -1, 100, "a number");
    AddInt(app, "-c,--ctx", c, 1, 100, "maybe a number");
    AddIntList(app, "-l,--list", list, 0, 9, "numbers");
    AddFloat(app, "-x", x, 0, 1, "a fraction");
    AddText(app, "-p,--prompt", text, "TEXT", "a text");
    AddDType(app, "--ctk,--cache-type-k", dtype, {DType::kF16, DType::kQ8_0},
             "a type");
  }
};

TEST(FlagsTest, StoreWhatIsGivenAndKeepTheRest) {
  Flags flags;
  EXPECT_EQ(Parse(flags.app,
                  {"-n", "-1", "-l", "3,4", "-x", "0.25", "--ctk", "Q8_0"}),
            "");
  EXPECT_EQ(flags.n, -1);
  EXPECT_FALSE(flags.c.has_value());
  EXPECT_THAT(flags.list, ElementsAre(3, 4));
  EXPECT_EQ(flags.x, 0.25f);
  EXPECT_FALSE(flags.text.has_value());
  EXPECT_EQ(flags.dtype, DType::kQ8_0);
}

TEST(FlagsTest, TheLastOccurrenceCounts) {
  Flags flags;
  EXPECT_EQ(Parse(flags.app, {"-n", "1", "--num", "2", "-n3"}), "");
  EXPECT_EQ(flags.n, 3);
}

TEST(FlagsTest, ListsAddUp) {
  Flags flags;
  EXPECT_EQ(Parse(flags.app, {"-l", "3,4", "-l", "5", "--list", "3"}), "");
  EXPECT_THAT(flags.list, ElementsAre(3, 4, 5, 3));
}

TEST(FlagsTest, ValuesAreTakenAsTheyAre) {
  for (const std::string value :
       {"-n", "--prompt", "", "[a,b]", "{}", "-1", "a=b", "\"x\"", "%"}) {
    Flags flags;
    EXPECT_EQ(Parse(flags.app, {"-p", value}), "") << value;
    EXPECT_EQ(flags.text, value);
  }
}

TEST(FlagsTest, WrongValuesNameTheFlag) {
  Flags flags;
  EXPECT_EQ(Parse(flags.app, {"-n", "x"}),
            "-n, --num: 'x' is not a whole number");
  EXPECT_THAT(Parse(flags.app, {"-n", "101"}), HasSubstr("-1 to 100"));
  EXPECT_THAT(Parse(flags.app, {"-n", "0x10"}), HasSubstr("0x10"));
  EXPECT_EQ(Parse(flags.app, {"--ctk", "f32"}),
            "-ctk, --cache-type-k: 'f32' is not one of f16, q8_0");
  EXPECT_THAT(Parse(flags.app, {"-x", "nan"}), HasSubstr("not a number"));
  EXPECT_NE(Parse(flags.app, {"-p"}), "");
  EXPECT_NE(Parse(flags.app, {"--unknown"}), "");
}

TEST(FlagsTest, RequiredPathsMustBeGivenAndNotEmpty) {
  CLI::App app;
  std::string path;
  AddRequiredPath(app, "-m,--model", path, "FILE", "the model");
  EXPECT_THAT(Parse(app, {}), HasSubstr("--model is required"));
  EXPECT_THAT(Parse(app, {"-m", ""}), HasSubstr("the path is empty"));
  EXPECT_EQ(Parse(app, {"-m", "a"}), "");
  EXPECT_EQ(path, "a");
}

TEST(FlagsTest, OptionalPathsMayBeLeftOutButNotEmpty) {
  CLI::App app;
  std::optional<std::string> path;
  AddPath(app, "--html", path, "FILE", "a page");
  EXPECT_EQ(Parse(app, {}), "");
  EXPECT_EQ(path, std::nullopt);
  EXPECT_EQ(Parse(app, {"--html", ""}), "--html: the path is empty");
  EXPECT_EQ(Parse(app, {"--html", "a"}), "");
  EXPECT_EQ(path, "a");
}

TEST(CheckOneModelTest, NeitherTwoNorNone) {
  const auto error = [](std::vector<std::string> args) -> std::string {
    CLI::App app;
    std::string path;
    AddRequiredPath(app, "MODEL", path, "", "a model")->required(false);
    AddRequiredPath(app, "-m,--model", path, "FILE", "a model")
        ->required(false);
    app.callback([&app] { CheckOneModel(app); });
    return Parse(app, std::move(args));
  };
  EXPECT_EQ(error({"a"}), "");
  EXPECT_EQ(error({"-m", "a", "-m", "b"}), "");
  EXPECT_THAT(error({}), HasSubstr("the model is missing"));
  EXPECT_THAT(error({"a", "-m", "b"}), HasSubstr("the model is given twice"));
}

TEST(RefuseAllButTest, NamesWhatWouldBeIgnored) {
  Flags flags;
  ASSERT_EQ(Parse(flags.app, {"-n", "1", "--prompt", "a"}), "");
  EXPECT_NO_THROW(RefuseAllBut(flags.app, {"--num", "-p"}, "here"));
  try {
    RefuseAllBut(flags.app, {"-p"}, "with -p");
    FAIL();
  } catch (const CLI::ValidationError& error) {
    EXPECT_STREQ(error.what(), "-n, --num: has no effect with -p");
  }
}

TEST(HelpFormatterTest, SpellsFlagsAsUsersTypeThem) {
  Flags flags;
  flags.app.formatter(MakeHelpFormatter());
  const std::string help = flags.app.help();
  EXPECT_THAT(help, HasSubstr("-ctk, --cache-type-k TYPE"));
  EXPECT_THAT(help, HasSubstr("-n, --num N"));
  EXPECT_THAT(help, HasSubstr("Usage: test [FLAGS]"));
}

TEST(HelpFormatterTest, TellsWhatIsRequiredInTheEnd) {
  CLI::App app;
  app.formatter(MakeHelpFormatter());
  std::string path;
  auto* model = AddRequiredPath(app, "-m,--model", path, "FILE", "the model");
  EXPECT_THAT(app.help(), HasSubstr("the model (required)\n"));
  model->required(false);
  EXPECT_THAT(app.help(), HasSubstr("the model\n"));
}

TEST(HelpFormatterTest, SaysWhetherACommandIsNeeded) {
  const auto usage_of = [](bool has_flags) {
    CLI::App app{"test", "test"};
    app.formatter(MakeHelpFormatter());
    app.set_version_flag("--version", "1");
    app.add_subcommand("sub");
    if (has_flags) app.add_flag("--fast");
    return app.help();
  };
  EXPECT_THAT(usage_of(false), HasSubstr("Usage: test COMMAND [FLAGS]"));
  EXPECT_THAT(usage_of(true), HasSubstr("Usage: test [COMMAND] [FLAGS]"));
}

TEST(HelpFormatterTest, LeavesWhatExcludesAFlagToItsDescription) {
  CLI::App app{"test", "test"};
  app.formatter(MakeHelpFormatter());
  app.add_flag("--on")->excludes(app.add_flag("--off"));
  EXPECT_THAT(app.help(), ::testing::Not(HasSubstr("Excludes")));
}

TEST(NamesOfTest, ListsThem) {
  EXPECT_EQ(NamesOf(std::vector{DType::kF16, DType::kQ8_0}), "f16, q8_0");
}

TEST(DecimalNearTest, IsWhatWasTyped) {
  EXPECT_EQ(DecimalNear(0.3f), 0.3);
  EXPECT_EQ(DecimalNear(0.26f), 0.26);
  EXPECT_EQ(DecimalNear(2.0f), 2.0);
}

TEST(LowerNameTest, IsWhatFlagsTake) {
  EXPECT_EQ(LowerName(DType::kQ8_0), "q8_0");
  EXPECT_EQ(LowerName(DType::kBF16), "bf16");
}

}  // namespace
}  // namespace thermocline::cli

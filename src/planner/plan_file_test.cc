#include "planner/plan_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "base/random.h"
#include "model/test_model.h"
#include "os/test_folder.h"

namespace thermocline::planner {
namespace {

PlanFile TinyPlan() {
  PlanFile plan;
  plan.model = {.architecture = "llama",
                .name = "ti\"ny",
                .num_layers = 2,
                .width = 64,
                .ffn_width = 100,
                .hash = 0xfedcba9876543210};
  plan.machine = "a card, a PC";
  plan.budget = 1 << 20;
  plan.mode = "fast";
  plan.method = Method::kIlp;
  plan.seconds = 0.1;
  plan.extents = {{.num_neurons = 100}, {.num_experts = 8}};
  plan.placement.head = true;
  plan.placement.layers = {
      {.attention = true, .predictor = true, .neurons = {0, 1, 2, 70}},
      {.experts = {1, 7}}};
  return plan;
}

std::string WithChange(const std::string& from, const std::string& to) {
  std::string text = FormatPlan(TinyPlan());
  const size_t found = text.find(from);
  EXPECT_NE(found, std::string::npos) << from;
  if (found != std::string::npos) text.replace(found, from.size(), to);
  return text;
}

TEST(PlanFileTest, APlanComesBackAndHasALinePerLayer) {
  const PlanFile plan = TinyPlan();
  const std::string text = FormatPlan(plan);
  const Result<PlanFile> again = ParsePlan(text, "x");
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(*again, plan);
  EXPECT_NE(text.find("\n    {\"layer\": 0, \"parts\": [\"attention\", "
                      "\"predictor\"], \"neurons\": 100, \"neurons_there\": "
                      "\"0-2,70\"},\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(std::ranges::count(text, '\n'), 16);
}

// The example of docs/formats/plan.md.
TEST(PlanFileTest, TheDocumentsExampleIsAsWritten) {
  const std::string path =
      TC_SOURCE_DIR "/testdata/fuzz/planner_plan_file_fuzz/two_layers.json";
  const Result<PlanFile> plan = ReadPlan(path);
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  EXPECT_EQ(FormatPlan(*plan), os::TestFolder::Read(path));
  const std::string text =
      os::TestFolder::Read(TC_SOURCE_DIR "/docs/formats/plan.md");
  EXPECT_NE(text.find(FormatPlan(*plan)), std::string::npos);
}

TEST(PlanFileTest, PlansOfDrawsComeBack) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Random random(seed);
    PlanFile plan = TinyPlan();
    const uint64_t num_layers = random.Below(4);
    plan.model.num_layers = num_layers;
    plan.extents.clear();
    plan.placement.layers.clear();
    for (uint64_t i = 0; i < num_layers; ++i) {
      LayerPlace& place = plan.placement.layers.emplace_back();
      LayerExtent& extent = plan.extents.emplace_back();
      place.attention = random.Below(2) == 0;
      place.matrices = random.Below(2) == 0;
      extent.num_neurons = static_cast<uint32_t>(random.Below(300));
      for (uint32_t n = 0; n < extent.num_neurons; ++n) {
        if (random.Below(3) != 0) place.neurons.push_back(n);
      }
    }
    plan.placement.scheme = static_cast<Scheme>(random.Below(4));
    plan.mode = plan.placement.scheme == Scheme::kDense ||
                        plan.placement.scheme == Scheme::kStream
                    ? "dense"
                    : "exact";
    plan.method = static_cast<Method>(random.Below(Methods().size()));
    plan.seconds.reset();
    if (random.Below(2) == 0) plan.seconds = random.Uniform();
    plan.budget = random.Next();
    const Result<PlanFile> again = ParsePlan(FormatPlan(plan), "x");
    ASSERT_TRUE(again.has_value()) << again.error().message;
    EXPECT_EQ(*again, plan) << seed;
  }
}

TEST(PlanFileTest, EveryTruncationIsRefused) {
  const std::string text = FormatPlan(TinyPlan());
  for (size_t size = 0; size + 1 < text.size(); ++size) {
    const Result<PlanFile> plan = ParsePlan(text.substr(0, size), "x.json");
    ASSERT_FALSE(plan.has_value()) << size;
    EXPECT_EQ(plan.error().code, ErrorCode::kCorrupt);
    EXPECT_TRUE(plan.error().message.starts_with("x.json: "));
  }
}

struct BadPlanCase {
  const char *from, *to, *message;
};
const BadPlanCase kBadPlans[] = {
    {"thermocline-plan", "plan", "\"format\" must be"},
    {"\"version\": 1", "\"version\": 0", "\"version\" must be 1 or more"},
    {"\"version\": 1", "\"version\": -1", "\"version\" must be a whole"},
    {"\"width\": 64", "\"width\": 6.5", "\"model.width\" must be a whole"},
    {"\"width\": 64, ", "", "\"model.width\" is missing"},
    {"\"width\": 64", "\"width\": 64, \"depth\": 1",
     "\"model.depth\" is unknown"},
    {"fedcba9876543210", "fedcba987654321", "\"model.hash\" must be 16"},
    {"\"ilp\"", "\"best\"", "\"method\" must be the name"},
    {"\"scheme\": \"sparse\"", "\"scheme\": \"odd\"", "\"scheme\" must be"},
    {"\"scheme\": \"sparse\"", "\"scheme\": \"stream\"",
     "\"scheme\" must be sparse or fetch"},
    {"\"head\": true", "\"head\": 1", "\"head\" must be true or false"},
    {"\"seconds_per_token\": 0.1", "\"seconds_per_token\": -1",
     "\"seconds_per_token\" must be"},
    {"\"layers\": 2", "\"layers\": 3", "\"layers\" must be a list of 3"},
    {"\"layer\": 1", "\"layer\": 0", "\"layers[1].layer\" must be 1"},
    {"\"attention\"", "\"predictor\"", "\"layers[0].parts\" must be"},
    {"0-2,70", "0-2,100", "\"layers[0].neurons_there\" must be"},
    {"\"neurons_there\": \"0-2,70\"", "\"there\": 1",
     "\"layers[0].neurons_there\" is missing"},
    {"\"experts\": 8", "\"experts\": 0", "\"layers[1].experts\" must be"},
    {"\"experts\": 8", "\"experts\": 99999999",
     "\"layers[1].experts\" must be"}};

TEST(PlanFileTest, ErrorsNameFileAndKey) {
  for (const BadPlanCase& c : kBadPlans) {
    const Result<PlanFile> plan = ParsePlan(WithChange(c.from, c.to), "x.json");
    ASSERT_FALSE(plan.has_value()) << c.message;
    EXPECT_EQ(plan.error().code, ErrorCode::kInvalidArgument) << c.message;
    EXPECT_TRUE(plan.error().message.starts_with("x.json: key "))
        << plan.error().message;
    EXPECT_NE(plan.error().message.find(c.message), std::string::npos)
        << plan.error().message;
  }
  const Result<PlanFile> later =
      ParsePlan(WithChange("\"version\": 1", "\"version\": 2"), "x.json");
  ASSERT_FALSE(later.has_value());
  EXPECT_EQ(later.error().code, ErrorCode::kUnsupported);
}

TEST(PlanFileTest, AShortTextCannotAskForMuchMemory) {
  PlanFile plan = TinyPlan();
  plan.model.num_layers = 9;
  plan.extents.assign(9, {.num_neurons = 1 << 22});
  plan.placement.layers.assign(9, {});
  const Result<PlanFile> parsed = ParsePlan(FormatPlan(plan), "x");
  ASSERT_FALSE(parsed.has_value());
  EXPECT_NE(parsed.error().message.find("layers[8].neurons"),
            std::string::npos);
}

TEST(PlanFileTest, WrittenFilesAreReadAndMissingOnesNamed) {
  const os::TestFolder folder;
  const std::string path = folder / "plan.json";
  ASSERT_TRUE(WritePlan(TinyPlan(), path).has_value());
  const Result<PlanFile> plan = ReadPlan(path);
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  EXPECT_EQ(*plan, TinyPlan());
  const Result<PlanFile> none = ReadPlan(path + "x");
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
}

TEST(PlanFileTest, APlanIsOfOneModel) {
  const os::TestFolder folder;
  const auto model =
      model::Model::Open(folder.Write("m.gguf", model::TestModel().Bytes()));
  ASSERT_TRUE(model.has_value()) << model.error().message;
  PlanFile plan;
  plan.model = model::FingerprintOf(**model);
  plan.extents.assign(2, {.num_neurons = 64});
  plan.placement.layers.resize(2);
  EXPECT_TRUE(CheckPlanFor(plan, **model, "x").has_value());
  plan.extents[1].num_neurons = 65;
  const Status other = CheckPlanFor(plan, **model, "x");
  ASSERT_FALSE(other.has_value());
  EXPECT_NE(other.error().message.find("x: layer 1 has 65"), std::string::npos)
      << other.error().message;
  plan.model.width += 1;
  EXPECT_FALSE(CheckPlanFor(plan, **model, "x").has_value());
}

}  // namespace
}  // namespace thermocline::planner

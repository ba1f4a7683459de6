#include "cli/plan_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "cli/test_files.h"
#include "cli/test_main.h"
#include "device/sim/sim_device.h"
#include "engine/ffn/ffn_choice.h"

namespace thermocline::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// A folder of plans and a machine whose host is slow, so that small models are
// worth placing; counts how often it was asked for its rates.
class PlanCache : public ::testing::Test {
 protected:
  PlanCache() : folder_(TempPath("plans")) {
    fs::remove_all(folder_);
    SetLogSink([this](LogLevel, std::string_view line) { log_ += line; });
    model_ = model::Model::Open(kPowerInferLlama).value();
    request_ = {
        .model = model_.get(),
        .choice = engine::ChooseFfn(model_->config(), engine::FfnMode::kAuto,
                                    engine::PredictorChoice::kAuto)
                      .value(),
        .layout = &device_->layout(),
        .context = 64,
        .num_kv_pages = 1,
        .vram = 1u << 20};
  }
  ~PlanCache() override {
    SetLogSink({});
    fs::remove_all(folder_);
  }

  PlanInputs Inputs(std::string identity = "slow host") {
    return {.machine = {.name = "card",
                        .identity = std::move(identity),
                        .hardware = [this](const model::Config&)
                            -> Result<planner::Hardware> {
                          ++num_solved_;
                          return planner::Hardware{.device_rate = 1e9,
                                                   .host_rate = 1e6,
                                                   .bus_rate = 1e6,
                                                   .up_rate = 1e9,
                                                   .down_rate = 1e9};
                        }}};
  }

  engine::Placement Place(const PlanInputs& inputs) {
    auto placed = PlaceKept(inputs, folder_)(request_);
    EXPECT_TRUE(placed) << placed.error().message;
    return *std::move(placed);
  }

  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    if (!fs::exists(folder_)) return files;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      files.push_back(entry.path().string());
    }
    return files;
  }

  std::string folder_;
  std::string log_;
  int num_solved_ = 0;
  std::shared_ptr<const model::Model> model_;
  std::unique_ptr<device::SimDevice> device_ =
      device::MakeSim(device::ReadMachine(std::string(TC_SOURCE_DIR) +
                                          "/machines/rtx4090-ddr5.json")
                          .value(),
                      {.time_only = true});
  engine::PlacementRequest request_;
};

TEST_F(PlanCache, SolvesOnceForTheSameStart) {
  const engine::Placement first = Place(Inputs());
  EXPECT_FALSE(first.empty());
  const engine::Placement second = Place(Inputs());
  EXPECT_EQ(num_solved_, 1);
  EXPECT_EQ(Files().size(), 1u);
  EXPECT_EQ(first.device_bytes(), second.device_bytes());
  for (size_t i = 0; i < first.layers.size(); ++i) {
    EXPECT_EQ(first.layers[i].resident, second.layers[i].resident);
  }
}

// Each of these is another plan.
TEST_F(PlanCache, TellsStartsApart) {
  std::set<std::string> paths;
  const auto add = [&](const std::string& identity = "slow host") {
    paths.insert(PlanPathIn(folder_, Inputs(identity).machine, request_));
  };
  add();
  add("another host");
  request_.vram += 1;
  add();
  request_.context = 128;
  add();
  request_.num_kv_pages = 2;
  add();
  request_.choice.mode = engine::FfnMode::kDense;
  add();
  request_.rules.num_layers = 0;
  add();
  request_.rules.tensors = {{"ffn", true}};
  add();
  request_.rules.tensors = {{"ffn", false}};
  add();
  EXPECT_EQ(paths.size(), 9u);
}

// Models that differ in who fires alone.
TEST_F(PlanCache, TellsProfilesApart) {
  std::set<std::string> paths;
  for (const char* seed : {"1", "2", "1"}) {
    const std::string path = TempPath("seeded.gguf");
    const MainResult made = RunMain({"synth", "--like", "tiny", "--layers", "1",
                                     "--seed", seed, "-o", path});
    ASSERT_EQ(made.exit_code, 0) << made.err;
    const auto model = model::Model::Open(path).value();
    request_.model = model.get();
    paths.insert(PlanPathIn(folder_, Inputs().machine, request_));
    fs::remove(path);
  }
  EXPECT_EQ(paths.size(), 2u);
}

// Whatever lies in the folder: the same placement as without it.
TEST_F(PlanCache, MakesAnewWhatIsDamaged) {
  const engine::Placement first = Place(Inputs());
  const std::string path = Files().at(0);
  std::string text;
  {
    std::ifstream in(path);
    text.assign(std::istreambuf_iterator<char>(in), {});
  }
  std::string other_machine = text;
  other_machine.replace(other_machine.find("card"), 4, "CARD");
  std::string other_method = text;
  other_method.replace(other_method.find("native"), 6, "all-host");
  std::string other_scheme = text;
  other_scheme.replace(other_scheme.find("sparse"), 6, "fetch");
  for (const std::string& damaged :
       {std::string(), text.substr(0, text.size() / 2), other_machine,
        other_method, other_scheme}) {
    std::ofstream(path) << damaged;
    log_.clear();
    const int num_solved = num_solved_;
    EXPECT_EQ(Place(Inputs()).device_bytes(), first.device_bytes());
    EXPECT_THAT(log_, HasSubstr("planned anew"));
    EXPECT_EQ(num_solved_, num_solved + 1);
  }
  EXPECT_EQ(Place(Inputs()).device_bytes(), first.device_bytes());
  EXPECT_EQ(num_solved_, 6);
}

// A folder that cannot be written costs a warning, not the session.
TEST_F(PlanCache, GoesOnWithoutItsFolder) {
  std::ofstream(folder_) << "a file";
  EXPECT_FALSE(Place(Inputs()).empty());
  EXPECT_THAT(log_, HasSubstr("is not kept"));
}

// What is free changes by little: the kept plan is found again.
TEST_F(PlanCache, WithoutABudgetSmallChangesAreNone) {
  ::setenv("THERMOCLINE_PLANS", folder_.c_str(), 1);
  engine::SessionOptions session;
  const std::string machine =
      std::string(TC_SOURCE_DIR) + "/machines/slow-host.json";
  ASSERT_TRUE(PlaceFor({.name = "sim", .machine = machine}, session));
  for (const uint64_t vram : {(64u << 20) + 5, (64u << 20) + 4096}) {
    request_.vram = vram;
    EXPECT_TRUE(session.place(request_));
    EXPECT_EQ(Files().size(), 1u);
  }
  ::setenv("THERMOCLINE_PLANS", "none", 1);
}

TEST(PlanFolders, ComeFromTheEnvironment) {
  ::setenv("THERMOCLINE_PLANS", "/plans", 1);
  EXPECT_EQ(PlanFolder(), "/plans");
  ::setenv("THERMOCLINE_PLANS", "none", 1);
  EXPECT_EQ(PlanFolder(), std::nullopt);
  ::unsetenv("THERMOCLINE_PLANS");
  ::setenv("XDG_CACHE_HOME", "/caches", 1);
  EXPECT_EQ(PlanFolder(), "/caches/thermocline/plans");
  const std::string home = std::getenv("HOME") ? std::getenv("HOME") : "";
  ::setenv("HOME", "/a", 1);
  ::setenv("XDG_CACHE_HOME", "caches", 1);
  EXPECT_EQ(PlanFolder(), "/a/.cache/thermocline/plans");
  ::setenv("HOME", "a", 1);
  EXPECT_EQ(PlanFolder(), std::nullopt);
  ::unsetenv("XDG_CACHE_HOME");
  ::setenv("HOME", home.c_str(), 1);
  ::setenv("THERMOCLINE_PLANS", "none", 1);
}

}  // namespace
}  // namespace thermocline::cli

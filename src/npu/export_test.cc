#include "npu/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "npu/block.h"
#include "npu/ir.h"
#include "npu/test_static_model.h"
#include "os/test_folder.h"

namespace thermocline::npu {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// A folder that goes away again, and a name in it that is not there.
class ExportTest : public ::testing::Test {
 protected:
  os::TestFolder parent_;
  std::string folder_ = parent_.path() + "/graphs";
  std::shared_ptr<const model::Model> model_ = MakeNpuModel({.num_layers = 3});

  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      if (entry.is_regular_file()) {
        names.push_back(fs::relative(entry.path(), folder_).string());
      }
    }
    return names;
  }
  std::string ErrorOfOpening() const {
    const auto exported = ReadExport(folder_);
    if (!exported.has_value()) return exported.error().message;
    const auto options = OptionsOf(*exported, folder_, *model_);
    if (!options.has_value()) return options.error().message;
    StaticRig rig(model_, *options);
    const auto y = rig.Run(RandomStream(2, 64, 1));
    return y.has_value() ? "" : y.error().message;
  }
};

TEST_F(ExportTest, GraphsOfAFolderAreThoseOfTheModel) {
  const ExportOptions options = {
      .rows = {1, 4}, .contexts = {64, 128}, .layers_per_graph = 2};
  ASSERT_TRUE(ExportModel(*model_, folder_, options, nullptr));
  EXPECT_THAT(Files(), ::testing::IsSupersetOf(
                           {"config.json", "variants.json",
                            "model/t1_c64_0.xml", "model/t1_c64_1.bin",
                            "model/t4_c128_1.xml", "model/head_t1.xml"}));
  const auto exported = ReadExport(folder_);
  ASSERT_TRUE(exported.has_value()) << exported.error().message;
  const auto read = OptionsOf(*exported, folder_, *model_);
  ASSERT_TRUE(read.has_value());
  StaticRig from_folder(model_, *read);
  StaticRig built(model_, {.rows = {1, 4}, .contexts = {64, 128}});
  const std::vector<float> x = RandomStream(9, 64, 1);
  EXPECT_EQ(from_folder.Run(x).value(), built.Run(x).value());
}

TEST_F(ExportTest, NitrosFolderHasItsChunksInOrder) {
  ASSERT_TRUE(ExportModel(
      *model_, folder_,
      {.contexts = {64, 128}, .layers_per_graph = 2, .is_nitro = true},
      nullptr));
  EXPECT_THAT(Files(),
              UnorderedElementsAre("config.json", "variants.json",
                                   "model/0.xml", "model/0.bin", "model/1.xml",
                                   "model/1.bin", "model/2.xml", "model/2.bin",
                                   "model/3.xml", "model/3.bin"));
  EXPECT_TRUE(fs::is_directory(folder_ + "/model/cache"));
  const ExportedModel exported = ReadExport(folder_).value();
  EXPECT_EQ(exported.kv, KvForm::kStateful);
  auto graphs =
      StaticModel::Create(model_, MakeReferenceDevice(),
                          OptionsOf(exported, folder_, *model_).value())
          .value();
  StaticRig built(model_, {.rows = {1}, .contexts = {64}});
  std::vector<float> x = RandomStream(3, 64, 1);
  const std::vector<float> expected = built.Run(x).value();
  ASSERT_TRUE(graphs->Run(PackedRows(x, 64), nullptr, {}));
  EXPECT_EQ(x, expected);
}

TEST_F(ExportTest, AFolderThatIsThereStaysAsItIs) {
  fs::create_directory(folder_);
  const Status status = ExportModel(*model_, folder_, {}, nullptr);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(ExportTest, NothingIsLeftOfAnExportThatFails) {
  model_ = MakeNpuModel(
      {.edit = [](const std::string& name, std::span<float> values) {
        if (name == "blk.1.attn_q.weight") values[3] = INFINITY;
      }});
  const Status status = ExportModel(*model_, folder_, {}, nullptr);
  ASSERT_FALSE(status.has_value());
  EXPECT_THAT(status.error().message, HasSubstr("layer 1, q"));
  EXPECT_FALSE(fs::exists(folder_));
}

// Whatever a graph asks for, memory is that of the model and the name.
TEST_F(ExportTest, GraphsOfOtherTensorsAreRefused) {
  const ExportOptions shapes = {.rows = {4}, .contexts = {64}};
  ASSERT_TRUE(ExportModel(*model_, folder_, shapes, nullptr));
  const StaticOptions options =
      OptionsOf(ReadExport(folder_).value(), folder_, *model_).value();
  const GraphName layers = {.num_layers = 3, .rows = 4, .context = 64};
  const GraphName head = {.is_head = true, .rows = 4};
  EXPECT_TRUE(options.read_graph(layers).has_value());
  EXPECT_TRUE(options.read_graph(head).has_value());
  const auto replace = [&](const GraphName& name, const char* file,
                           const Result<Graph>& graph) {
    EXPECT_TRUE(WriteIrFiles(*graph, folder_ + "/model/" + file));
    const auto read = options.read_graph(name);
    if (read.has_value()) return std::string("taken");
    EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
    return read.error().message;
  };
  const std::string file = "t4_c64_0";
  BlockSpec spec = {.num_layers = 3, .rows = 4, .context = 64};
  const auto of_layers = [&] {
    return replace(layers, file.c_str(), BuildBlocks(*model_, spec));
  };
  spec.context = 128;
  EXPECT_THAT(of_layers(), HasSubstr(file + ".xml: its parameter 'cache_k_0' "
                                            "is f16[1,124,2,16], not"));
  spec.context = 64;
  spec.num_layers = 2;
  EXPECT_THAT(of_layers(), HasSubstr("no parameter 'cache_k_2'"));
  spec.num_layers = 3;
  spec.kv = KvForm::kStateful;
  EXPECT_THAT(of_layers(), HasSubstr("no parameter 'cache_k_0'"));
  const auto wide = MakeNpuModel({.num_layers = 3, .vocab_size = 41});
  EXPECT_THAT(replace(head, "head_t4", BuildHead(*wide, 4, WeightForm::kExact)),
              HasSubstr("result 'logits' is f32[1,4,41], not f32[1,4,40]"));
}

// The last of these begins the last chunk.
TEST_F(ExportTest, AContextHasThePositionsThatGraphsReach) {
  model_ = MakeNpuModel({.architecture = "opt", .num_layers = 1});
  ASSERT_GT(model_->config().num_positions, 0);
  ExportedModel exported = {.model = model::FingerprintOf(*model_),
                            .rows = {8, 16},
                            .contexts = {64}};
  const auto context = [&] {
    return OptionsOf(exported, folder_, *model_).value().context;
  };
  EXPECT_EQ(context(), 57);
  exported.contexts = {512};
  EXPECT_EQ(context(), model_->config().num_positions);
}

TEST_F(ExportTest, WhatIsWrongWithAFolderIsTold) {
  EXPECT_THAT(ErrorOfOpening(), HasSubstr("no folder of graphs"));
  ASSERT_TRUE(
      ExportModel(*model_, folder_, {.rows = {1}, .contexts = {64}}, nullptr));
  EXPECT_EQ(ErrorOfOpening(), "");
  fs::resize_file(folder_ + "/model/t1_c64_0.bin", 100);
  EXPECT_THAT(ErrorOfOpening(), HasSubstr("t1_c64_0"));
  fs::remove(folder_ + "/model/t1_c64_0.xml");
  EXPECT_THAT(ErrorOfOpening(), HasSubstr("t1_c64_0.xml"));
  model_ = MakeNpuModel({.num_layers = 2});
  EXPECT_THAT(ErrorOfOpening(), HasSubstr("was exported"));
  std::ofstream(folder_ + "/variants.json") << "[]";
  EXPECT_THAT(ErrorOfOpening(), HasSubstr("no JSON object"));
}

}  // namespace
}  // namespace thermocline::npu

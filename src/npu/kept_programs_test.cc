#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "npu/test_openvino.h"
#include "npu/test_static_model.h"

namespace thermocline::npu {
namespace {

// y = x + `number`.
Graph AddNumber(float number) {
  Graph graph;
  const Value x = graph.Parameter("x", {Element::kF32, {2}});
  graph.Output(graph.Binary(Op::kAdd, x, graph.Scalar(number)), "y");
  return graph;
}

class KeptProgramsTest : public ::testing::Test {
 protected:
  std::unique_ptr<StaticProgram> Compile(float number,
                                         const CompileOptions& options = {}) {
    auto program = kept_->Compile(AddNumber(number), options);
    EXPECT_TRUE(program.has_value());
    EXPECT_EQ(RunAddOne(**program),
              (std::vector<float>{1.0f + number, 2.0f + number}));
    return *std::move(program);
  }

  std::shared_ptr<FaultyDevice> device_ = std::make_shared<FaultyDevice>();
  std::shared_ptr<StaticDevice> kept_ = KeepPrograms(device_);
};

TEST_F(KeptProgramsTest, AGraphIsCompiledOnceForThoseWhoComeInTurn) {
  Compile(1.0f);
  Compile(1.0f);
  EXPECT_EQ(device_->num_compiles, 1);
  // Other constants in the same text.
  Compile(2.0f);
  EXPECT_EQ(device_->num_compiles, 2);
  Compile(1.0f);
  EXPECT_EQ(device_->num_compiles, 2);
  EXPECT_EQ(kept_->name(), "faulty");
  EXPECT_EQ(kept_->Describe(), "faulty device");
}

TEST_F(KeptProgramsTest, TwoAtATimeHaveOneEach) {
  const auto first = Compile(1.0f);
  Compile(1.0f);
  EXPECT_EQ(device_->num_compiles, 2);
}

TEST_F(KeptProgramsTest, OtherOptionsThatCountMakeAnotherProgram) {
  Compile(1.0f);
  Compile(1.0f, {.most_seconds = 9.0});
  EXPECT_EQ(device_->num_compiles, 1);
  Compile(1.0f, {.is_exact = true});
  EXPECT_EQ(device_->num_compiles, 2);
  // And the one before is no more.
  Compile(1.0f);
  EXPECT_EQ(device_->num_compiles, 3);
}

// Of each session there are both.
TEST_F(KeptProgramsTest, ProgramsOfOneRowAndOfManyStaySideBySide) {
  for (int session = 0; session < 3; ++session) {
    Compile(1.0f, {.is_one_row = true});
    Compile(2.0f);
  }
  EXPECT_EQ(device_->num_compiles, 2);
  // What is faster for one row is not for many.
  Compile(2.0f, {.is_one_row = true});
  EXPECT_EQ(device_->num_compiles, 3);
}

TEST_F(KeptProgramsTest, AFailedCompileIsTriedAgain) {
  device_->failing_compile = 0;
  EXPECT_FALSE(kept_->Compile(AddNumber(1.0f), {}).has_value());
  Compile(1.0f);
  EXPECT_EQ(device_->num_compiles, 2);
}

// What the one before left in it does not show.
TEST_F(KeptProgramsTest, AModelIsComputedAsByANewOne) {
  const auto model = MakeNpuModel({});
  const std::vector<float> x = RandomStream(9, 64, 1);
  StaticRig expected(model, {.rows = {8}, .contexts = {64}});
  const std::vector<float> y = expected.Run(x).value();
  for (const KvForm kv : {KvForm::kAppend, KvForm::kStateful}) {
    int num_compiles = 0;
    for (int session = 0; session < 2; ++session) {
      const StaticOptions options = {
          .kv = kv, .rows = {kv == KvForm::kAppend ? 8 : 1}, .contexts = {64}};
      auto graphs = StaticModel::Create(model, kept_, options).value();
      std::vector<float> rows = x;
      ASSERT_TRUE(graphs->Run(PackedRows(rows, 64), nullptr, {}));
      EXPECT_EQ(rows, y) << NameOf(kv);
      if (session == 0) num_compiles = device_->num_compiles;
    }
    EXPECT_EQ(device_->num_compiles, num_compiles) << NameOf(kv);
  }
}

// Of an NPU the host's threads do not count, nor do limits of time.
TEST(OptionsThatCountTest, AreTheDevicesOwn) {
  const TestEnvironment fake({{"FAKE_OV_DEVICES", "CPU,NPU"}});
  const auto openvino = LoadFake();
  const CompileOptions options = {
      .num_threads = 3, .cache_dir = "d", .most_seconds = 2.0};
  const CompileOptions of_cpu =
      (*openvino->Open("CPU"))->OptionsThatCount(options);
  EXPECT_EQ(of_cpu, (CompileOptions{.num_threads = 3}));
  const CompileOptions of_npu =
      (*openvino->Open("NPU"))->OptionsThatCount(options);
  EXPECT_EQ(of_npu, (CompileOptions{.cache_dir = "d"}));
  EXPECT_EQ(MakeReferenceDevice()->OptionsThatCount(options), CompileOptions());
}

}  // namespace
}  // namespace thermocline::npu

#include "pack/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "model/test_model.h"
#include "model/test_prepared.h"
#include "os/test_folder.h"
#include "pack/test_parts.h"

namespace thermocline::pack {
namespace {

using gguf::TestFile;
using model::Model;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::shared_ptr<const Model> OpenFile(TestFile file) {
  const os::TestFolder folder;
  return Model::Open(folder.Write("m.gguf", file.Bytes())).value();
}

// By layer.
std::vector<bool> BundledGates(const Model& source, const PreparedParts& parts,
                               const PackOptions& options = {}) {
  std::vector<bool> bundled;
  const auto plan = PlanRecords(source, parts, options);
  EXPECT_TRUE(plan.has_value());
  for (const PackedLayer& layer : *plan) {
    bundled.push_back(layer.layout->gate.has_value());
  }
  return bundled;
}

TEST(PlanRecordsTest, TypesThatCannotBeBundledAreNamedWithWhatToDo) {
  const auto source = OpenFile(model::TestModel());
  const auto plan = PlanRecords(*source, {}, {.down_dtype = DType::kQ4_K});
  ASSERT_FALSE(plan.has_value());
  EXPECT_EQ(plan.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(plan.error().message,
              AllOf(HasSubstr("m.gguf"), HasSubstr("layer 0"),
                    HasSubstr("Q4_K"), HasSubstr("Q8_0")));
}

TEST(PlanRecordsTest, GatesAreInTheRecordsWherePredictorsChoose) {
  const auto source = OpenFile(model::TestModel());
  EXPECT_EQ(BundledGates(*source, {}), std::vector({false, false}));
  PreparedParts parts;
  parts.predictors = {LayerPredictor(), std::nullopt};
  EXPECT_EQ(BundledGates(*source, parts), std::vector({true, false}));
  parts.training_free = {std::nullopt, LayerTrainingFree()};
  EXPECT_EQ(BundledGates(*source, parts), std::vector({true, true}));
  // One read is to bring all of a neuron.
  EXPECT_EQ(BundledGates(*source, {},
                         {.record_alignment = neuron::kStorageAlignment}),
            std::vector({true, true}));
}

TEST(PlanRecordsTest, ForeignPredictorsStayAndOursDoNot) {
  const auto power_infer = OpenFile(model::TestPowerInferModel());
  EXPECT_EQ(BundledGates(*power_infer, {}), std::vector({true, true}));
  TestFile file = model::TestModel();
  model::AddTestParts(file);
  EXPECT_EQ(BundledGates(*OpenFile(file), {}), std::vector({false, false}));
}

}  // namespace
}  // namespace thermocline::pack

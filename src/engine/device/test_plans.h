// What tests of placements share: small models, a layout that lacks a type.
#ifndef THERMOCLINE_ENGINE_DEVICE_TEST_PLANS_H_
#define THERMOCLINE_ENGINE_DEVICE_TEST_PLANS_H_

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "device/device.h"
#include "device/sim/sim_device.h"
#include "device/sim/test_machine.h"
#include "engine/device/listed_placement.h"
#include "engine/device/planner.h"
#include "engine/ffn/ffn_choice.h"
#include "engine/testing/tiny_model.h"

namespace thermocline::engine::testing {

// A model of which everything could be on a device, and how it is computed.
struct PlannedModel {
  std::shared_ptr<const model::Model> model;
  FfnChoice choice;
};

// "dense" (matrices), "transposed" (dense, down matrices alone), "exact"
// (records), "fast" (records, and predictors of their own layer), "ahead" (of
// the next layer), "mixture" (dense).
inline PlannedModel OpenPlanned(const std::string& kind) {
  TinySpec spec;
  spec.num_layers = 3;
  spec.dtype = DType::kF16;
  FfnChoice choice;
  if (kind == "mixture") {
    UseArchitecture("mixtral", spec);
  } else if (kind == "transposed") {
    spec.down_t = true;
  } else if (kind != "dense") {
    spec.activation = "relu";
    choice.mode = FfnMode::kExact;
  }
  if (kind == "fast" || kind == "ahead") {
    spec.predictor_rank = 16;
    spec.lookahead = kind == "ahead" ? 1 : 0;
    choice = {.mode = FfnMode::kFast, .predictor = PredictorChoice::kTrained};
  }
  const bool has_records = choice.mode != FfnMode::kDense;
  auto model = OpenTinyModel(spec, {.bundle_at_load = has_records});
  EXPECT_TRUE(model) << model.error().message;
  return {model ? *model : nullptr, choice};
}

// The last so many layers whole; the weights of the others over the link, and
// the head's unless all layers are there. Requires a device that could have
// everything.
inline Result<Placement> PlaceOverLink(const PlacementRequest& request,
                                       size_t num_there) {
  PlacementRequest everything = request;
  everything.vram = uint64_t{1} << 40;
  TC_ASSIGN_OR_RETURN(Placement all, PlanPlacement(everything));
  const size_t num_layers = all.layers.size();
  ListedParts parts = {.layers = std::move(all.layers),
                       .head = num_there > num_layers,
                       .rest_over_link = true};
  for (size_t i = 0; i + num_there < num_layers; ++i) parts.layers[i] = {};
  return PlaceListed(request, parts);
}

// The simulated device's, but for one type.
class LayoutWithout final : public device::RowLayout {
 public:
  explicit LayoutWithout(std::optional<DType> missing)
      : device_(device::MakeSim(device::TestMachine(), {})),
        missing_(missing) {}

  bool CanCompute(DType dtype) const override {
    return dtype != missing_ && device_->layout().CanCompute(dtype);
  }
  size_t RowBytes(DType dtype, size_t n) const override {
    return device_->layout().RowBytes(dtype, n);
  }
  void Pack(DType dtype, const std::byte* row, size_t n,
            std::byte* out) const override {
    device_->layout().Pack(dtype, row, n, out);
  }

 private:
  std::unique_ptr<device::SimDevice> device_;
  std::optional<DType> missing_;
};

}  // namespace thermocline::engine::testing

#endif  // THERMOCLINE_ENGINE_DEVICE_TEST_PLANS_H_

#include "engine/device/placement.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <tuple>

#include "base/math.h"
#include "base/units.h"
#include "engine/ffn/device_ffn.h"

namespace thermocline::engine {
namespace {

// Devices allocate in pieces of so many bytes.
constexpr uint64_t kPieceBytes = 256;

// A layer whose neurons can be on the device.
struct PlacedLayer {
  size_t layer_idx = 0;
  size_t num_neurons = 0;
  DeviceRecords records;
};

// A neuron, and how much it is worth to have it.
struct Worth {
  double per_byte = 0.0;
  uint32_t place_idx = 0;
  uint32_t neuron = 0;
};

class Placer {
 public:
  Placer(const model::Model& model, FfnMode mode,
         const device::RowLayout& layout)
      : model_(model), mode_(mode) {
    const auto& layers = model.weights().layers;
    for (size_t i = 0; i < layers.size(); ++i) {
      const model::FfnSpec& spec = model.config().layers[i].ffn;
      const Result<DeviceRecords> records = Plan(i, layout);
      if (!records) {
        placement_.left_out.push_back(
            fmt::format("layer {}: {}", i, records.error().message));
        continue;
      }
      places_.push_back({i, static_cast<size_t>(spec.width), *records});
      need_.Cover(
          DeviceFfnNeed(spec, static_cast<uint64_t>(model.config().width)));
    }
    placement_.layers.resize(layers.size());
  }

  Result<Placement> Place(uint64_t vram) {
    if (places_.empty()) {
      return Fail(ErrorCode::kUnsupported,
                  "{}: no neuron can be on a device: {}", model_.file().path(),
                  placement_.left_out.front());
    }
    placement_.lane_bytes = RoundUp(need_.device_bytes, kPieceBytes);
    placement_.pinned_bytes = RoundUp(need_.pinned_bytes, kPieceBytes);
    TC_ASSIGN_OR_RETURN(uint64_t left, LeftOf(vram));
    for (const Worth& worth : Ranked()) {
      const PlacedLayer& place = places_[worth.place_idx];
      if (place.records.record_bytes > left) continue;
      left -= place.records.record_bytes;
      placement_.layers[place.layer_idx].resident.push_back(worth.neuron);
    }
    Close();
    return std::move(placement_);
  }

 private:
  Result<DeviceRecords> Plan(size_t layer_idx,
                             const device::RowLayout& layout) const {
    const model::FfnSpec& spec = model_.config().layers[layer_idx].ffn;
    if (spec.num_experts > 0) {
      return Fail(ErrorCode::kUnsupported,
                  "its experts stay on the host for now");
    }
    const model::FfnWeights& weights = model_.weights().layers[layer_idx].ffn;
    if (mode_ == FfnMode::kDense && !weights.bundled) {
      return Fail(ErrorCode::kUnsupported,
                  "all of its neurons are computed, as matrices, which stay on "
                  "the host for now");
    }
    return PlanDeviceRecords(spec, weights, layout);
  }

  // Of the budget, behind what is needed for any neuron at all.
  Result<uint64_t> LeftOf(uint64_t vram) const {
    uint64_t fixed = placement_.lane_bytes;
    for (const PlacedLayer& place : places_) {
      fixed += place.records.other_bytes + kPieceBytes;
    }
    const uint64_t least = fixed + places_.front().records.record_bytes;
    if (vram >= least) return vram - fixed;
    return Fail(ErrorCode::kResourceExhausted,
                "a budget of {} of VRAM holds no neuron: with the activations "
                "at least {} are needed",
                FormatBytes(vram), FormatBytes(least));
  }

  std::vector<Worth> Ranked() const {
    std::vector<Worth> ranked;
    for (size_t p = 0; p < places_.size(); ++p) {
      const PlacedLayer& place = places_[p];
      const TensorView& counts =
          model_.weights().layers[place.layer_idx].profile_counts;
      const auto bytes = static_cast<double>(place.records.record_bytes);
      for (size_t i = 0; i < place.num_neurons; ++i) {
        ranked.push_back({WorthOf(counts, i, place.num_neurons) / bytes,
                          static_cast<uint32_t>(p), static_cast<uint32_t>(i)});
      }
    }
    // Ties by layer and neuron: the same plan on every machine.
    std::ranges::sort(ranked, [](const Worth& a, const Worth& b) {
      return std::tuple(-a.per_byte, a.place_idx, a.neuron) <
             std::tuple(-b.per_byte, b.place_idx, b.neuron);
    });
    return ranked;
  }

  static double WorthOf(const TensorView& counts, size_t neuron,
                        size_t num_neurons) {
    if (!counts) {
      return static_cast<double>(num_neurons - neuron) /
             static_cast<double>(num_neurons);
    }
    int32_t count = 0;
    std::memcpy(&count, counts.data + neuron * sizeof(count), sizeof(count));
    return static_cast<double>(count);
  }

  // A layer without neurons takes nothing.
  void Close() {
    for (const PlacedLayer& place : places_) {
      std::vector<uint32_t>& resident =
          placement_.layers[place.layer_idx].resident;
      if (resident.empty()) continue;
      std::ranges::sort(resident);
      placement_.record_bytes +=
          RoundUp(place.records.BytesFor(resident.size()), kPieceBytes);
    }
  }

  const model::Model& model_;
  FfnMode mode_;
  std::vector<PlacedLayer> places_;
  LaneNeed need_;
  Placement placement_;
};

}  // namespace

Result<Placement> PlaceByFrequency(const model::Model& model, FfnMode mode,
                                   const device::RowLayout& layout,
                                   uint64_t vram) {
  return Placer(model, mode, layout).Place(vram);
}

}  // namespace thermocline::engine

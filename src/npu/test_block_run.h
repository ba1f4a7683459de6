// For tests: sequences through graphs of blocks, as a caller has to do it.
#ifndef THERMOCLINE_NPU_TEST_BLOCK_RUN_H_
#define THERMOCLINE_NPU_TEST_BLOCK_RUN_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/model.h"
#include "model/rope.h"
#include "npu/block.h"
#include "npu/layer_inputs.h"
#include "npu/static_device.h"
#include "npu/test_graph.h"

namespace thermocline::npu {

// All layers of a model, layers_per_graph in each program, T rows at a time.
class BlockRun {
 public:
  BlockRun(const model::Model& model, StaticDevice& device, BlockSpec spec,
           size_t layers_per_graph)
      : model_(model), spec_(std::move(spec)) {
    spec_.num_layers = layers_per_graph;
    const size_t num_layers = model.config().num_layers;
    for (size_t i = 0; i < num_layers; i += layers_per_graph) {
      spec_.first_layer = i;
      auto graph = BuildBlocks(model, spec_);
      if (!graph.has_value()) ADD_FAILURE() << graph.error().message;
      programs_.push_back(std::make_unique<BoundProgram>(device, *graph));
      if (spec_.weights_are_inputs) SetWeights(i, *programs_.back());
    }
  }

  // Writes something into all rows of caches that no position has.
  void Poison(float value) {
    const uint16_t half = F32ToF16(value);
    ForEachCache([&](BoundProgram& program, const std::string& name, size_t) {
      const std::span<std::byte> bytes = program.bytes("cache_" + name);
      for (size_t i = 0; i < bytes.size(); i += sizeof(half)) {
        std::memcpy(bytes.data() + i, &half, sizeof(half));
      }
    });
  }

  // x [n, D] -> y [n, D], at the next positions.
  std::vector<float> Run(std::span<const float> x) {
    const size_t width = model_.config().width;
    const auto rows = static_cast<size_t>(spec_.rows);
    std::vector<float> y;
    for (size_t first = 0; first * width < x.size(); first += rows) {
      const size_t count = std::min(rows, x.size() / width - first);
      std::vector<float> chunk(rows * width, 0.75f);
      std::ranges::copy(x.subspan(first * width, count * width), chunk.begin());
      const std::vector<float> out = RunChunk(std::move(chunk), count);
      y.insert(y.end(), out.begin(),
               out.begin() + static_cast<ptrdiff_t>(count * width));
    }
    return y;
  }

  // "k" or "v" of a layer's positions, in the graph's order, F16.
  const std::vector<uint16_t>& rows(size_t layer_idx, char which) {
    return rows_[std::string(1, which) + "_" + std::to_string(layer_idx)];
  }

 private:
  std::vector<float> RunChunk(std::vector<float> x, size_t count) {
    for (const auto& program : programs_) {
      program->Set("x", std::as_bytes(std::span(x)));
      program->Set("mask", Mask());
      SetPositions(*program);
      const Status status = program->Infer();
      EXPECT_TRUE(status.has_value()) << (status ? "" : status.error().message);
      x = program->Get("y");
    }
    ForEachCache(
        [&](BoundProgram& program, const std::string& name, size_t layer_idx) {
          TakeRows(program, name,
                   std::string(1, name[0]) + "_" + std::to_string(layer_idx),
                   count);
        });
    past_ += static_cast<int64_t>(count);
    return x;
  }

  // body(program, "k_0", layer): of stateful forms there are none.
  template <typename Body>
  void ForEachCache(const Body& body) {
    if (spec_.kv == KvForm::kStateful) return;
    for (size_t i = 0; i < model_.config().num_layers; ++i) {
      const std::string number =
          std::to_string(spec_.weights_are_inputs ? 0 : i);
      BoundProgram& program = *programs_[i / spec_.num_layers];
      body(program, "k_" + number, i);
      body(program, "v_" + number, i);
    }
  }

  void TakeRows(BoundProgram& program, const std::string& name,
                const std::string& key, size_t count) {
    const std::span<std::byte> cache = program.bytes("cache_" + name);
    const bool appends = spec_.kv == KvForm::kAppend;
    const std::span<std::byte> out =
        program.bytes(appends ? "new_" + name : "cache_" + name + "_out");
    const auto out_rows =
        static_cast<size_t>(appends ? spec_.rows : spec_.context);
    const size_t row = out.size() / out_rows;
    const auto past = static_cast<size_t>(past_);
    size_t first = 0;
    if (spec_.kv == KvForm::kScatter) first = past;
    if (spec_.kv == KvForm::kRoll) first = out_rows - count;
    const std::span<std::byte> taken = out.subspan(first * row, count * row);
    std::vector<uint16_t>& kept = rows_[key];
    kept.resize((past + count) * row / sizeof(uint16_t));
    std::memcpy(kept.data() + past * row / sizeof(uint16_t), taken.data(),
                taken.size());
    if (appends) {
      // The last ones may have no place: then nothing comes behind them.
      const size_t room = std::min(taken.size(), cache.size() - past * row);
      std::memcpy(cache.data() + past * row, taken.data(), room);
    } else {
      std::ranges::copy(out, cache.begin());
    }
  }

  std::vector<double> Mask() const {
    const int64_t context = spec_.context;
    std::vector<double> mask;
    for (int64_t i = 0; i < spec_.rows; ++i) {
      for (int64_t c = 0; c < context; ++c) {
        mask.push_back(IsOpen(i, c) ? 0.0 : double{kClosed});
      }
    }
    return mask;
  }
  bool IsOpen(int64_t row, int64_t column) const {
    if (spec_.kv == KvForm::kScatter) return column <= past_ + row;
    const int64_t first_new = spec_.context - spec_.rows;
    if (column >= first_new) return column - first_new <= row;
    return spec_.kv == KvForm::kAppend ? column < past_
                                       : column >= first_new - past_;
  }

  void SetPositions(BoundProgram& program) const {
    if (spec_.kv == KvForm::kScatter) {
      std::vector<double> positions;
      for (int64_t i = 0; i < spec_.rows; ++i) {
        positions.push_back(static_cast<double>(past_ + i));
      }
      program.Set("positions", positions);
    }
    const model::Config& config = model_.config();
    if (config.ropes.empty()) return;
    const model::RopeTable table(config.ropes[0],
                                 model_.weights().rope_freq_factors);
    const size_t num_pairs = table.num_pairs();
    std::vector<float> cos(static_cast<size_t>(spec_.rows) * num_pairs);
    std::vector<float> sin(cos.size());
    for (int64_t i = 0; i < spec_.rows; ++i) {
      const size_t first = static_cast<size_t>(i) * num_pairs;
      table.Angles(past_ + i, cos.data() + first, sin.data() + first);
    }
    program.Set("rope_cos", std::as_bytes(std::span(cos)));
    program.Set("rope_sin", std::as_bytes(std::span(sin)));
  }

  void SetWeights(size_t layer_idx, BoundProgram& program) const {
    const auto inputs = LayerInputs(model_, layer_idx, spec_.weights);
    std::vector<std::byte*> data;
    for (const LayerInput& input : *inputs) {
      data.push_back(program.bytes(input.name).data());
    }
    const Status status =
        UnpackLayer(model_, model_.weights().layers[layer_idx], layer_idx,
                    spec_.weights, 0, data.size(), data, nullptr);
    EXPECT_TRUE(status.has_value());
  }

  const model::Model& model_;
  BlockSpec spec_;
  std::vector<std::unique_ptr<BoundProgram>> programs_;
  std::map<std::string, std::vector<uint16_t>> rows_;
  int64_t past_ = 0;
};

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_TEST_BLOCK_RUN_H_

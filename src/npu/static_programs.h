// Programs for all shapes and steps of a model, compiled when they are needed.
#ifndef THERMOCLINE_NPU_STATIC_PROGRAMS_H_
#define THERMOCLINE_NPU_STATIC_PROGRAMS_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/model.h"
#include "npu/static_device.h"
#include "npu/static_memory.h"
#include "npu/static_model.h"
#include "npu/static_steps.h"

namespace thermocline::npu {

struct ProgramKey {
  size_t first_layer = 0;  // Step::program_of
  size_t num_layers = 1;
  int64_t rows = 1;
  int64_t context = 0;
  auto operator<=>(const ProgramKey&) const = default;
};

// A tensor of a program.
struct BoundTensor {
  std::string name;
  Type type;
  std::byte* place = nullptr;  // where it was bound to last
};

struct LayersProgram {
  std::unique_ptr<StaticProgram> program;
  // In the graph's order; each has to be bound.
  std::vector<BoundTensor> tensors;
};

class StaticPrograms {
 public:
  // All of it outlives this but for the options.
  StaticPrograms(const model::Model* model, StaticDevice* device,
                 const StaticOptions& options)
      : model_(model), device_(device), options_(options) {}

  LayersProgram* Find(const ProgramKey& key) {
    const auto found = programs_.find(key);
    return found == programs_.end() ? nullptr : &found->second;
  }
  // Errors of BuildBlocks and Compile; kIo where that took too long.
  Status Make(const ProgramKey& key);
  // Variables of all are what they were at first.
  Status Reset();
  // Of the head, for `rows`.
  Result<LayersProgram> MakeHead(int64_t rows) const;

 private:
  Result<Graph> LayersGraph(const ProgramKey& key) const;
  Result<LayersProgram> Compile(const Graph& graph, int64_t rows) const;

  const model::Model* model_;
  StaticDevice* device_;
  StaticOptions options_;
  std::map<ProgramKey, LayersProgram> programs_;
};

// The head's program, made when it is first needed.
class StaticHead {
 public:
  // logits [n, V] of x [n, D], so many rows at a time; `of` has room for them.
  Status Run(const StaticPrograms& programs, const StaticActivations& of,
             int64_t rows, std::span<const float> x, std::span<float> logits);

 private:
  std::optional<LayersProgram> program_;
};

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_STATIC_PROGRAMS_H_

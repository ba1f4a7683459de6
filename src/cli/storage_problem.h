// From a model and a budget of RAM to a plan of what streams from its file.
#ifndef THERMOCLINE_CLI_STORAGE_PROBLEM_H_
#define THERMOCLINE_CLI_STORAGE_PROBLEM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "cli/storage_uses.h"
#include "engine/ffn/ffn_choice.h"
#include "engine/runtime.h"
#include "model/model.h"
#include "planner/storage_plan.h"

namespace thermocline::cli {

struct StorageQuestion {
  planner::CoreLimits limits;
  std::vector<std::string> policies;  // that are compared; empty: the default
  std::optional<std::string> trace_path, counts_path;
};

// Plans one model with several budgets.
class StorageProblem {
 public:
  // A model that is mapped, with nothing left out; it and the machine outlive
  // this. options.budget.ram is not read. Errors of ChooseFfn and UsesOf.
  static Result<StorageProblem> Create(const model::Model* model,
                                       const engine::SessionOptions& options,
                                       const planner::StorageMachine* machine,
                                       const StorageQuestion& question);

  // kResourceExhausted: below the least budget, which the message has, although
  // fewer threads might do: what is planned is to run without a plan too.
  // Errors of PlanStorage.
  Result<planner::StoragePlan> Plan(uint64_t ram);

  // What holds anything, and what holds everything, with as many threads as
  // the question allows: a run's least and most.
  Result<uint64_t> LeastRam() const;
  Result<uint64_t> AllRam() const;

  engine::FfnMode mode() const { return choice_.mode; }
  const std::string& source() const { return uses_.source; }
  int64_t context() const { return context_; }

 private:
  // What the engine would take.
  struct Held {
    engine::RuntimePlan runtime;
    std::optional<engine::LeftWeights> left;
    std::vector<uint64_t> left_bytes;  // [L] of tensors that stay
  };

  StorageProblem(const model::Model* model,
                 const engine::SessionOptions& options,
                 const planner::StorageMachine* machine)
      : model_(model), options_(options), machine_(machine) {}

  Status ChooseUnit();
  uint32_t most_threads() const;
  Result<Held> HoldBy(std::optional<engine::StreamUnit> unit, uint64_t ram,
                      uint32_t num_threads) const;
  Result<Held> Hold(uint64_t ram, uint32_t num_threads) const {
    return HoldBy(options_.unit, ram, num_threads);
  }
  // With most_threads(), and of two units what the budget holds.
  Result<Held> HoldAsRun(uint64_t ram) const;
  Result<std::vector<planner::StorageCase>> CasesFor(uint64_t ram,
                                                     uint32_t num_threads);
  planner::StreamModel StreamOf(const Held& held) const;
  planner::StreamLayer LayerOf(size_t layer_idx, const Held& held) const;
  double BytesOfNeuron(size_t layer_idx, const model::FfnMatrices& ffn) const;
  void AddFfn(size_t layer_idx, planner::StreamLayer& layer) const;
  std::vector<uint32_t> CapacityOf(const Held& held) const;
  ReadShape ShapeOfReads(const Held& held) const;
  std::vector<planner::TokenUse> KnownUses(const Held& held) const;
  Result<std::vector<planner::TokenUse>> Replay(const std::string& policy,
                                                const Held& held);

  const model::Model* model_;
  engine::SessionOptions options_;
  const planner::StorageMachine* machine_;
  StorageQuestion question_;
  engine::FfnChoice choice_;
  int64_t context_ = 0;
  // Of a mixture that streams by neurons: by whole experts. The faster counts.
  std::shared_ptr<StorageProblem> by_experts_;
  UnitUses uses_;  // without tokens where they are known exactly
  std::map<std::pair<std::string, std::vector<uint32_t>>,
           std::vector<planner::TokenUse>>
      replays_;
};

// "records", "experts", "layers"; of a plan in which all fits "none".
std::string UnitName(const std::optional<engine::LeftWeights>& left);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_STORAGE_PROBLEM_H_

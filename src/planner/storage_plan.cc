#include "planner/storage_plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/units.h"

namespace thermocline::planner {
namespace {

// Cores that are alike.
struct CoreClass {
  std::vector<Core> cores;  // ascending by CPU
};

bool AreAlike(const Core& a, const Core& b) {
  return a.row_rate == b.row_rate && a.prompt_rate == b.prompt_rate &&
         a.read_share == b.read_share;
}

Result<std::vector<Core>> AllowedCores(const StorageMachine& machine,
                                       const CoreLimits& limits) {
  std::vector<Core> allowed;
  for (const Core& core : machine.cores) {
    if (limits.cpus.empty() ||
        std::ranges::find(limits.cpus, core.cpu) != limits.cpus.end()) {
      allowed.push_back(core);
    }
  }
  for (const int cpu : limits.cpus) {
    if (std::ranges::find(machine.cores, cpu, &Core::cpu) !=
        machine.cores.end()) {
      continue;
    }
    std::vector<int> known;
    for (const Core& core : machine.cores) known.push_back(core.cpu);
    return Fail(ErrorCode::kInvalidArgument,
                "CPU {} is none of those that {} computes with: {}", cpu,
                machine.name, fmt::join(known, ", "));
  }
  std::ranges::sort(allowed, {}, &Core::cpu);
  return allowed;
}

std::vector<CoreClass> ClassesOf(const std::vector<Core>& cores) {
  std::vector<CoreClass> classes;
  for (const Core& core : cores) {
    const auto same = std::ranges::find_if(classes, [&](const CoreClass& c) {
      return AreAlike(c.cores.front(), core);
    });
    if (same != classes.end()) {
      same->cores.push_back(core);
    } else {
      classes.push_back({{core}});
    }
  }
  return classes;
}

std::vector<int> CpusOf(std::vector<Core> cores) {
  std::vector<int> cpus;
  for (const Core& core : cores) cpus.push_back(core.cpu);
  std::ranges::sort(cpus);
  return cpus;
}

// Tries all numbers of cores of each class.
class Search {
 public:
  Search(const StorageMachine& machine, const CasesOf& cases_of,
         std::vector<CoreClass> classes, uint32_t most_threads)
      : machine_(machine),
        cases_of_(cases_of),
        classes_(std::move(classes)),
        most_threads_(most_threads) {}

  Result<StoragePlan> Run() {
    // Few cores first: what more of them do not make faster stays.
    for (uint32_t total = 1; total <= most_threads_; ++total) {
      TC_RETURN_IF_ERROR(Choose(0, total));
    }
    if (!best_) {
      return Fail(ErrorCode::kInvalidArgument,
                  "{} {} no room for {} that only read beside one that "
                  "computes",
                  Plural(most_threads_, "thread"),
                  most_threads_ == 1 ? "leaves" : "leave",
                  Plural(machine_.least_io_cores, "core"));
    }
    best_->num_cases = num_cases_;
    return *std::move(best_);
  }

 private:
  struct Ready {
    StorageCase holding;
    std::vector<TokenUse> uses;
  };

  // Cores of the classes from `class_idx` on, `left` of them.
  Status Choose(size_t class_idx, uint32_t left) {
    if (class_idx == classes_.size()) return left == 0 ? Try() : Status();
    const std::vector<Core>& cores = classes_[class_idx].cores;
    const auto count = static_cast<uint32_t>(cores.size());
    for (uint32_t computing = 0; computing <= std::min(count, left);
         ++computing) {
      const uint32_t most_io = std::min(
          {count - computing, left - computing,
           machine_.most_io_cores - static_cast<uint32_t>(io_.size())});
      for (uint32_t reading = 0; reading <= most_io; ++reading) {
        compute_.insert(compute_.end(), cores.begin(),
                        cores.begin() + computing);
        io_.insert(io_.end(), cores.end() - reading, cores.end());
        TC_RETURN_IF_ERROR(Choose(class_idx + 1, left - computing - reading));
        compute_.resize(compute_.size() - computing);
        io_.resize(io_.size() - reading);
      }
    }
    return {};
  }

  Status Try() {
    if (compute_.empty() || io_.size() < machine_.least_io_cores) return {};
    const auto num_compute = static_cast<uint32_t>(compute_.size());
    TC_ASSIGN_OR_RETURN(const std::vector<Ready>* cases, CasesFor(num_compute));
    const CoreShare share = ShareOf(machine_, compute_, io_);
    for (const Ready& ready : *cases) {
      const StorageCost cost =
          PredictStorage(machine_, ready.holding.model, share, ready.uses);
      ++num_cases_;
      if (best_ && best_->cost.seconds <= cost.seconds) continue;
      best_ = StoragePlan{.compute_cpus = CpusOf(compute_),
                          .io_cpus = CpusOf(io_),
                          .cores = share,
                          .chosen = ready.holding,
                          .cost = cost};
    }
    return {};
  }

  Result<const std::vector<Ready>*> CasesFor(uint32_t num_compute) {
    const auto found = ready_.find(num_compute);
    if (found != ready_.end()) return &found->second;
    TC_ASSIGN_OR_RETURN(std::vector<StorageCase> cases, cases_of_(num_compute));
    std::vector<Ready>& ready = ready_[num_compute];
    for (StorageCase& holding : cases) {
      TC_ASSIGN_OR_RETURN(auto uses, holding.uses());
      ready.push_back({std::move(holding), std::move(uses)});
    }
    return &ready;
  }

  const StorageMachine& machine_;
  const CasesOf& cases_of_;
  const std::vector<CoreClass> classes_;
  const uint32_t most_threads_;
  std::vector<Core> compute_, io_;  // chosen so far
  std::map<uint32_t, std::vector<Ready>> ready_;
  std::optional<StoragePlan> best_;
  uint64_t num_cases_ = 0;
};

}  // namespace

CoreShare ShareOf(const StorageMachine& machine,
                  const std::vector<Core>& compute,
                  const std::vector<Core>& io) {
  TC_CHECK(!compute.empty());
  CoreShare share = {.read_share = 0.0,
                     .num_compute = static_cast<uint32_t>(compute.size()),
                     .num_io = static_cast<uint32_t>(io.size())};
  for (const Core& core : compute) {
    share.row_rate += core.row_rate;
    share.prompt_rate += core.prompt_rate;
  }
  for (const Core& core : io.empty() ? compute : io) {
    share.read_share = std::max(share.read_share, core.read_share);
  }
  if (io.size() > 1 && !machine.more_io_cores.empty()) {
    share.read_share *= machine.more_io_cores[std::min(
        io.size() - 2, machine.more_io_cores.size() - 1)];
  }
  return share;
}

Result<StoragePlan> PlanStorage(const StorageMachine& machine,
                                const CoreLimits& limits,
                                const CasesOf& cases_of) {
  TC_RETURN_IF_ERROR(CheckMachine(machine));
  TC_ASSIGN_OR_RETURN(const std::vector<Core> allowed,
                      AllowedCores(machine, limits));
  auto most = static_cast<uint32_t>(allowed.size());
  if (limits.most_threads > 0) most = std::min(most, limits.most_threads);
  return Search(machine, cases_of, ClassesOf(allowed), most).Run();
}

Result<uint64_t> LeastBudget(
    uint64_t least, uint64_t most, uint64_t step, double seconds,
    const std::function<Result<double>(uint64_t budget)>& seconds_of) {
  TC_ASSIGN_OR_RETURN(const double fastest, seconds_of(most));
  if (fastest > seconds) return uint64_t{0};
  TC_ASSIGN_OR_RETURN(const double slowest, seconds_of(least));
  if (slowest <= seconds) return least;
  while (most - least > step) {
    const uint64_t middle = least + (most - least) / 2;
    TC_ASSIGN_OR_RETURN(const double predicted, seconds_of(middle));
    (predicted <= seconds ? most : least) = middle;
  }
  return most;
}

}  // namespace thermocline::planner

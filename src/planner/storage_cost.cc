#include "planner/storage_cost.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"

namespace thermocline::planner {
namespace {

constexpr uint64_t kMostPromptTokens = uint64_t{1} << 20;
// Reads of a layer that is read whole.
constexpr double kWholeReadBytes = 512.0 * 1024.0;

// What misses add to `longest` of memory and products, which `num_pieces`
// pieces share: by the time x * storage a piece has all of its random part of
// the misses with probability exp(-(1 - x) * misses / pieces), and those that
// have it are computed one after the other.
double WithLatePieces(double in_memory, double storage, double num_missed,
                      uint32_t num_pieces) {
  if (num_missed <= 0.0 || storage <= 0.0) return in_memory;
  if (num_pieces == 0) return std::max(in_memory, storage);
  const auto pieces = static_cast<double>(num_pieces);
  double end = in_memory;
  for (uint32_t i = 1; i <= num_pieces; ++i) {
    const double part = static_cast<double>(i) / pieces;
    const double at = std::max(0.0, 1.0 + pieces / num_missed * std::log(part));
    end = std::max(end, storage * at + in_memory * (1.0 - part + 1.0 / pieces));
  }
  return end;
}

// What a piece of work takes of each resource, at the same time.
struct Need {
  double compute = 0.0, memory = 0.0, storage = 0.0;
};

class Prediction {
 public:
  Prediction(const StorageMachine& machine, const StreamModel& model,
             const CoreShare& cores)
      : machine_(machine),
        model_(model),
        cores_(cores),
        memory_rate_(MemoryBytesPerSecond(machine, cores.num_compute)) {}

  StorageCost Of(const std::vector<TokenUse>& tokens) {
    TC_CHECK(!tokens.empty());
    for (const TokenUse& token : tokens) {
      TC_CHECK(token.size() == model_.layers.size());
    }
    if (model_.timing == ReadTiming::kInOrder) {
      // The first token of all has nothing before it to read under.
      AddInOrder(tokens.front());
      cost_ = {};
    }
    std::vector<double> seconds;
    for (const TokenUse& token : tokens) {
      const double before = cost_.seconds;
      if (model_.timing == ReadTiming::kInOrder) {
        AddInOrder(token);
      } else {
        for (size_t l = 0; l < token.size(); ++l) AddLayer(l, token[l]);
      }
      seconds.push_back(cost_.seconds - before);
    }
    Average(seconds);
    return cost_;
  }

 private:
  Need FixedOf(size_t layer_idx) const {
    const double bytes = model_.layers[layer_idx].fixed_bytes;
    return {.compute = bytes / cores_.row_rate, .memory = bytes / memory_rate_};
  }

  // What is read passes through memory once more.
  Need UnitsOf(size_t layer_idx, const LayerUse& use) const {
    const double bytes =
        model_.layers[layer_idx].used_bytes * static_cast<double>(use.num_used);
    const auto num_reads = static_cast<double>(use.num_reads);
    const auto read_bytes = static_cast<double>(use.read_bytes);
    const double cpu = num_reads * machine_.read_cpu_seconds;
    const bool is_random = model_.timing == ReadTiming::kInLayer;
    Need need = {
        .compute = bytes / cores_.row_rate,
        .memory = (bytes + read_bytes) / memory_rate_,
        .storage = ReadSeconds(machine_, is_random, num_reads, read_bytes) /
                   cores_.read_share};
    if (cores_.num_io == 0) {
      need.compute += cpu / static_cast<double>(cores_.num_compute);
    } else {
      need.storage =
          std::max(need.storage, cpu / static_cast<double>(cores_.num_io));
    }
    return need;
  }

  void Count(const LayerUse& use) {
    cost_.num_used += static_cast<double>(use.num_used);
    cost_.num_missed += static_cast<double>(use.num_missed);
    cost_.num_reads += static_cast<double>(use.num_reads);
    cost_.read_bytes += static_cast<double>(use.read_bytes);
  }

  void CountAlone(const Need& need) {
    cost_.compute_alone += need.compute;
    cost_.memory_alone += need.memory;
    cost_.storage_alone += need.storage;
  }

  // Whom time is waited for: what is in memory takes its time anyway, unless
  // storage alone is longer.
  void Wait(const Need& need, double num_missed) {
    const double in_memory = std::max(need.compute, need.memory);
    const double end =
        WithLatePieces(in_memory, need.storage, num_missed, model_.num_pieces);
    cost_.seconds += end;
    const double for_storage =
        need.storage >= in_memory ? end : end - in_memory;
    cost_.storage_seconds += for_storage;
    (need.memory > need.compute ? cost_.memory_seconds
                                : cost_.compute_seconds) += end - for_storage;
    CountAlone(need);
  }

  void AddLayer(size_t layer_idx, const LayerUse& use) {
    Wait(FixedOf(layer_idx), 0.0);
    Wait(UnitsOf(layer_idx, use), static_cast<double>(use.num_missed));
    Count(use);
  }

  // Layers are read in order, each to a slot that an earlier one has left, also
  // under what is before them. `read_end_` and `left_` go on from token to
  // token: the next one's first layers are read under this one's last.
  void AddInOrder(const TokenUse& token) {
    const double begin = now_;
    double waited = 0.0;
    Need in_memory;
    for (size_t l = 0; l < token.size(); ++l) {
      Need need = UnitsOf(l, token[l]);
      const Need fixed = FixedOf(l);
      need.compute += fixed.compute;
      need.memory += fixed.memory;
      CountAlone(need);
      Count(token[l]);
      in_memory.compute += need.compute;
      in_memory.memory += need.memory;
      if (token[l].num_reads > 0) {
        const size_t slots = std::max<uint32_t>(model_.num_slots, 1);
        const double is_free =
            left_.size() < slots ? 0.0 : left_[left_.size() - slots];
        read_end_ = std::max(read_end_, is_free) + need.storage;
        waited += std::max(0.0, read_end_ - now_);
        now_ = std::max(now_, read_end_);
      }
      now_ += std::max(need.compute, need.memory);
      if (token[l].num_reads > 0) left_.push_back(now_);
    }
    cost_.seconds += now_ - begin;
    cost_.storage_seconds += waited;
    (in_memory.memory > in_memory.compute ? cost_.memory_seconds
                                          : cost_.compute_seconds) +=
        now_ - begin - waited;
  }

  void Average(std::vector<double>& seconds) {
    const auto count = static_cast<double>(seconds.size());
    for (double* sum :
         {&cost_.seconds, &cost_.compute_seconds, &cost_.memory_seconds,
          &cost_.storage_seconds, &cost_.compute_alone, &cost_.memory_alone,
          &cost_.storage_alone, &cost_.num_used, &cost_.num_missed,
          &cost_.num_reads, &cost_.read_bytes}) {
      *sum /= count;
    }
    std::ranges::sort(seconds);
    const auto at = [&](double share) {
      const auto idx = static_cast<size_t>(std::ceil(share * count)) - 1;
      return seconds[std::min(idx, seconds.size() - 1)];
    };
    cost_.p50_seconds = at(0.5);
    cost_.p90_seconds = at(0.9);
    cost_.p99_seconds = at(0.99);
  }

  const StorageMachine& machine_;
  const StreamModel& model_;
  const CoreShare& cores_;
  const double memory_rate_;
  StorageCost cost_;
  double now_ = 0.0, read_end_ = 0.0;
  std::vector<double> left_;  // when layers that were read were over
};

}  // namespace

StorageCost PredictStorage(const StorageMachine& machine,
                           const StreamModel& model, const CoreShare& cores,
                           const std::vector<TokenUse>& tokens) {
  return Prediction(machine, model, cores).Of(tokens);
}

double PromptSeconds(const StorageMachine& machine, const StreamModel& model,
                     const CoreShare& cores, uint64_t num_tokens) {
  const double memory_rate = MemoryBytesPerSecond(machine, cores.num_compute);
  const auto rows = static_cast<double>(num_tokens);
  double read_end = 0.0;
  double now = 0.0;
  for (const StreamLayer& layer : model.layers) {
    const double bytes = layer.fixed_bytes + layer.all_bytes;
    read_end +=
        ReadSeconds(machine, /*is_random=*/false,
                    layer.left_bytes / kWholeReadBytes, layer.left_bytes) /
        cores.read_share;
    now = std::max(now, read_end) +
          std::max({rows * bytes / cores.prompt_rate, bytes / cores.row_rate,
                    (bytes + layer.left_bytes) / memory_rate});
  }
  return now;
}

uint64_t DensePromptPays(const StorageMachine& machine,
                         const StreamModel& model, const CoreShare& cores,
                         double seconds_per_token) {
  const auto pays = [&](uint64_t num_tokens) {
    return PromptSeconds(machine, model, cores, num_tokens) <=
           static_cast<double>(num_tokens) * seconds_per_token;
  };
  uint64_t most = 1;
  while (most < kMostPromptTokens && !pays(most)) most *= 2;
  if (!pays(most)) return 0;
  // Time per token falls as prompts grow.
  uint64_t least = most / 2;
  while (most - least > 1) {
    const uint64_t middle = least + (most - least) / 2;
    (pays(middle) ? most : least) = middle;
  }
  return most;
}

}  // namespace thermocline::planner

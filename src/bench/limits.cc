#include "bench/limits.h"

#include <algorithm>
#include <initializer_list>

#include "kernels/kernels.h"

namespace thermocline::bench {
namespace {

// Adds up matrices by type.
class WorkSum {
 public:
  void Add(std::initializer_list<TensorView> matrices, double share = 1.0) {
    for (const TensorView& matrix : matrices) {
      if (!matrix) continue;
      TypeWork& work =
          of_type_.try_emplace(matrix.dtype, matrix.dtype, 0.0, 0.0)
              .first->second;
      work.num_bytes += share * static_cast<double>(matrix.num_bytes());
      work.num_macs += share * static_cast<double>(matrix.shape.num_elems());
    }
  }
  void AddFfn(const model::FfnMatrices& ffn, double share) {
    Add({ffn.gate, ffn.up, ffn.down ? ffn.down : ffn.down_t}, share);
  }
  std::vector<TypeWork> Finish() const {
    std::vector<TypeWork> rows;
    for (const auto& [dtype, work] : of_type_) rows.push_back(work);
    return rows;
  }

 private:
  std::map<DType, TypeWork> of_type_;
};

}  // namespace

ModelWork WorkOf(const model::Model& model) {
  const model::Weights& weights = model.weights();
  const model::FfnSpec& ffn_config = CommonFfn(model.config());
  WorkSum layers;
  for (const model::LayerWeights& layer : weights.layers) {
    const model::AttentionWeights& a = layer.attention;
    layers.Add({a.q, a.k, a.v, a.out, layer.ffn.router});
    layers.AddFfn(layer.ffn, 1.0);
    for (const model::FfnMatrices& expert : layer.ffn.experts) {
      layers.AddFfn(expert, static_cast<double>(ffn_config.num_experts_used) /
                                static_cast<double>(ffn_config.num_experts));
    }
  }
  WorkSum head;
  head.Add({weights.head});
  return {.layers = layers.Finish(), .head = head.Finish().front()};
}

Result<probe::ProductRate> KernelRates::Of(DType dtype, size_t num_tokens) {
  const std::pair key(dtype, std::clamp<size_t>(num_tokens, 1, kManyTokens));
  const auto known = rates_.find(key);
  if (known != rates_.end()) return known->second;
  TC_ASSIGN_OR_RETURN(
      const probe::ProductRate rate,
      probe::MeasureProduct(kernels::KernelsFor(isa_), dtype, key.second));
  return rates_.emplace(key, rate).first->second;
}

Result<Arithmetic> ArithmeticOf(const ModelWork& work, KernelRates& rates,
                                const Workload& test, int64_t batch) {
  Arithmetic sum = {};
  const auto add = [&](const TypeWork& row, int64_t together,
                       int64_t num_tokens) -> Status {
    TC_ASSIGN_OR_RETURN(const probe::ProductRate rate,
                        rates.Of(row.dtype, static_cast<size_t>(together)));
    const double num_macs = row.num_macs * static_cast<double>(num_tokens);
    sum.num_macs += num_macs;
    sum.seconds += num_macs / (rate.gmac_per_s * 1e9);
    return {};
  };
  const int64_t together =
      test.is_prompt() ? std::min(batch, test.num_prompt) : 1;
  for (const TypeWork& row : work.layers) {
    TC_RETURN_IF_ERROR(add(row, together, test.length()));
  }
  TC_RETURN_IF_ERROR(add(work.head, 1, test.is_prompt() ? 1 : test.length()));
  return sum;
}

std::string_view NameOf(LimitKind kind) {
  switch (kind) {
    case LimitKind::kNone:
      return "";
    case LimitKind::kMemory:
      return "memory";
    case LimitKind::kArithmetic:
      return "arithmetic";
  }
  return "";
}

Limit LongerOf(double memory_seconds, double arithmetic_seconds) {
  return memory_seconds >= arithmetic_seconds
             ? Limit{LimitKind::kMemory, memory_seconds}
             : Limit{LimitKind::kArithmetic, arithmetic_seconds};
}

}  // namespace thermocline::bench

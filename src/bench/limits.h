// The best speed that memory and arithmetic allow a model on this machine.
#ifndef THERMOCLINE_BENCH_LIMITS_H_
#define THERMOCLINE_BENCH_LIMITS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "bench/workload.h"
#include "kernels/isa.h"
#include "model/model.h"
#include "probe/product.h"
#include "tensor/dtype.h"

namespace thermocline::bench {

// Kernels are measured with at most so many tokens at once.
inline constexpr int kManyTokens = 512;

// The matrices of one type that a token is multiplied with.
struct TypeWork {
  DType dtype;
  double num_bytes;
  double num_macs;
};

// Of one token, every neuron computed; of experts, those that a token uses.
// Attention's own arithmetic, norms and activations are not counted, so that no
// engine with these kernels is faster than what follows from it.
struct ModelWork {
  std::vector<TypeWork> layers;  // a row per type
  TypeWork head;
};
ModelWork WorkOf(const model::Model& model);

// In-cache rates of one ISA's kernels, each measured when it is first needed.
class KernelRates {
 public:
  explicit KernelRates(kernels::Isa isa) : isa_(isa) {}

  // Errors of probe::MeasureProduct. More than 512 tokens count as 512.
  Result<probe::ProductRate> Of(DType dtype, size_t num_tokens);

 private:
  kernels::Isa isa_;
  std::map<std::pair<DType, size_t>, probe::ProductRate> rates_;
};

// What the weights of one test cost in arithmetic.
struct Arithmetic {
  double num_macs;
  double seconds;  // on one thread, at the kernels' in-cache rates
};
// Prompts are computed `batch` tokens at a time, with one row of logits.
Result<Arithmetic> ArithmeticOf(const ModelWork& work, KernelRates& rates,
                                const Workload& test, int64_t batch);

enum class LimitKind : uint8_t { kNone, kMemory, kArithmetic };
std::string_view NameOf(LimitKind kind);  // "", "memory", "arithmetic"

// The longer of the two least times.
struct Limit {
  LimitKind kind = LimitKind::kNone;
  double seconds = 0.0;
};
Limit LongerOf(double memory_seconds, double arithmetic_seconds);

}  // namespace thermocline::bench

#endif  // THERMOCLINE_BENCH_LIMITS_H_

// What this machine can do at best: reading memory, and multiplying in cache.
#ifndef THERMOCLINE_BENCH_ROOF_H_
#define THERMOCLINE_BENCH_ROOF_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/status.h"
#include "bench/bench.h"
#include "kernels/isa.h"
#include "model/model.h"
#include "probe/product.h"
#include "tensor/dtype.h"

namespace thermocline::bench {

struct RoofOptions {
  std::vector<int> threads;  // empty: 1, 2, 4, ... and the physical cores
  kernels::Isa isa = kernels::BestIsa();
  bool measure_products = true;
  // Also reads rows of so many bytes that lie apart, as sparse layers do
  // (probe::ReadProbe::MeasureRowsApart); 0: none.
  size_t row_bytes = 0;
  size_t probe_bytes = 0;  // 0: as probe::ProbeSizeFor() says
  // Asks what this model could reach at an empty KV cache; may be null. Then
  // only the types of its matrices are measured, and reads of as much memory.
  std::shared_ptr<const model::Model> model;
  ProgressFn progress;
};

struct ReadRow {
  int num_threads;
  double gb_per_s;  // the best pass
  double gb_per_s_median;
};

struct ProductRow {
  DType dtype;
  probe::ProductRate one;   // with one token
  probe::ProductRate many;  // with 512
  // The least measured number of threads that together multiply with one token
  // faster than memory delivers the weights; nullopt: none of them.
  std::optional<int> threads_to_memory;
};

// What the model could reach with so many threads.
struct ModelRow {
  int num_threads;
  double memory_tokens_per_s;  // decoding: bytes / read rate
  // Products in the cache, of decoding and of a prefill of 512 tokens: nullopt
  // where products were not measured.
  std::optional<double> arithmetic_tokens_per_s;
  std::optional<double> prefill_tokens_per_s;
};

struct RoofReport {
  std::string build, cpu;  // the caller's to fill in
  std::string isa;
  uint64_t cache_bytes;  // last level, 0: unknown
  uint64_t probe_bytes;
  bool probe_is_capped;  // less than wanted, for want of memory: the cache may
                         // have a part of it
  std::vector<ReadRow> reads;       // in sequence
  size_t row_bytes = 0;             // of rows apart; 0: not measured
  std::vector<ReadRow> rows_apart;  // with the same threads as `reads`, or none
  std::vector<ProductRow> products;
  std::string model_path;  // empty without one, like the rest
  uint64_t bytes_per_token = 0;
  std::vector<ModelRow> models;
};

// Errors of probe::ReadProbe and probe::MeasureProduct.
// Cost: a tenth of a second per type; per thread count the probe's memory, and
// its time to be filled and read fourteen times, of rows apart 21 times more.
// With a cache of 480 MiB, whose probe has 4 GB, that was 11 s on a machine
// that others used too.
Result<RoofReport> MeasureRoof(const RoofOptions& options);

std::string FormatRoof(const RoofReport& report, BenchFormat format);

}  // namespace thermocline::bench

#endif  // THERMOCLINE_BENCH_ROOF_H_

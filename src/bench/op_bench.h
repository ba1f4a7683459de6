// Sparse products against dense ones, and neurons computed where they lie
// against neurons that are moved first. (PowerInfer, figures 16 and 6.)
#ifndef THERMOCLINE_BENCH_OP_BENCH_H_
#define THERMOCLINE_BENCH_OP_BENCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/status.h"
#include "bench/bench.h"
#include "bench/op_layer.h"
#include "bench/op_subject.h"
#include "device/device.h"
#include "device/sim/machine.h"
#include "kernels/isa.h"

namespace thermocline::bench {

// The host, if there is neither.
struct OpTarget {
  std::optional<device::Machine> machine;  // in virtual time, without numbers
  std::shared_ptr<device::Device> device;
  // Of the device; nullopt: measured.
  std::optional<double> roof_gb_per_s;
};

struct OpBenchOptions {
  OpShape shape;
  std::vector<OpTarget> targets;
  int num_threads = 0;  // of the host; 0: one per physical core
  kernels::Isa isa = kernels::BestIsa();
  int rounds = 5;  // that count, after one that does not
  uint64_t most_bytes = uint64_t{2} << 30;  // of weights, on each
  uint64_t seed = 1;
  std::vector<double> sparsities = {0,   0.1, 0.2, 0.3, 0.4,  0.5,
                                    0.6, 0.7, 0.8, 0.9, 0.95, 0.99};
  std::vector<double> shares = {0.1, 0.6};
  std::vector<size_t> batches = {1, 2, 4, 8, 16, 32};
  ProgressFn progress;
};

// One sparsity on one device; medians of the rounds.
struct OpSparseRow {
  size_t subject = 0;              // OpReport::subjects
  std::optional<double> sparsity;  // nullopt: the dense product
  uint64_t num_neurons = 0;
  double seconds = 0.0;
  double dense_seconds = 0.0;
  uint64_t num_bytes = 0;  // of weights that it reads

  double gb_per_s() const {
    return static_cast<double>(num_bytes) / seconds / 1e9;
  }
};

// One share of the layer and one batch; medians.
struct OpMoveRow {
  size_t subject = 0;  // who would take them
  double share = 0.0;
  uint64_t num_neurons = 0;
  size_t batch = 0;
  double in_place_seconds = 0.0;  // on the host
  // Without a device nobody takes them.
  std::optional<double> move_seconds, compute_seconds;

  std::optional<double> sum() const {
    if (!move_seconds) return std::nullopt;
    return *move_seconds + *compute_seconds;
  }
};

struct OpReport {
  std::string build, cpu;  // the caller's to fill in; cpu empty: no host
  std::string isa;
  OpShape shape;
  int rounds = 0;
  uint64_t seed = 0;
  uint64_t most_bytes = 0;
  std::vector<OpFacts> subjects;
  std::vector<OpSparseRow> sparse;
  std::vector<OpMoveRow> moves;
};

// Every result is compared with sums in double before its time counts:
// kCorrupt. kInvalidArgument: CheckShape, no target, no round. Else errors of
// devices, of MakeHostSubject and DeviceSubject::Make.
// Threads  one caller at a time, or they measure each other.
// Cost     at most `most_bytes` on each subject, where a read probe takes as
//          much before, and 0.6 of the layer in pinned memory.
Result<OpReport> RunOpBench(const OpBenchOptions& options);

// Rows of one subject, dense first, the others in the order of sparsities. In
// each round all of them in turns, each sparsity with a set of its own.
Result<std::vector<OpSparseRow>> MeasureSparse(OpSubject& subject,
                                               OpLayer& layer,
                                               const OpBenchOptions& options);

// The least sparsity from which on all are faster than dense.
std::optional<double> SparseWinsFrom(const OpReport& report, size_t subject);
// The least batch from which on moving wins.
std::optional<size_t> MovingWinsFrom(const OpReport& report, size_t subject,
                                     double share);

// Of 100 * the time that the bytes take at least / the time; nullopt without a
// roof.
std::optional<double> PercentOfBound(const OpReport& report,
                                     const OpSparseRow& row);

// kMarkdown: two tables and notes. kJson: an object. kCsv: a line per row.
std::string FormatOp(const OpReport& report, BenchFormat format);

}  // namespace thermocline::bench

#endif  // THERMOCLINE_BENCH_OP_BENCH_H_

#include "bench/op_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/random.h"
#include "bench/op_device.h"
#include "bench/op_host.h"
#include "bench/samples.h"
#include "device/sim/sim_device.h"
#include "probe/device_rates.h"

namespace thermocline::bench {
namespace {

// At least one.
size_t CountOf(size_t num_neurons, double share) {
  const auto count = static_cast<size_t>(
      std::llround(share * static_cast<double>(num_neurons)));
  return std::clamp<size_t>(count, 1, num_neurons);
}

// So many of num_neurons, at random, ascending.
std::vector<uint32_t> DrawIds(size_t num_neurons, double share, Random random) {
  const size_t count = CountOf(num_neurons, share);
  std::vector<uint32_t> ids(num_neurons);
  std::iota(ids.begin(), ids.end(), 0u);
  for (size_t i = 0; i < count; ++i) {
    std::swap(ids[i], ids[i + random.Below(num_neurons - i)]);
  }
  ids.resize(count);
  std::ranges::sort(ids);
  return ids;
}

// Of all rows that a call had.
Status CheckOut(const OpSubject& subject, OpLayer& layer,
                const std::string& what, std::span<const uint32_t> ids,
                size_t num_rows, bool is_dense) {
  if (subject.out(0).empty()) return {};  // times alone
  for (size_t t = 0; t < std::min(num_rows, OpLayer::kRows); ++t) {
    TC_RETURN_IF_ERROR(layer.Check(what, ids, t, is_dense, subject.out(t)));
  }
  return {};
}

// In virtual time, so that what the host does meanwhile is too.
bool IsTimedBySim(const OpTarget& target) {
  return target.machine || device::AsSim(target.device.get()) != nullptr;
}

bool IsHost(const OpTarget& target) {
  return !target.machine && target.device == nullptr;
}

Result<double> RoofOf(const OpTarget& target, device::Device& device) {
  if (target.roof_gb_per_s) return *target.roof_gb_per_s;
  if (const device::SimDevice* sim = device::AsSim(&device)) {
    return sim->machine().device_rate / 1e9;
  }
  TC_ASSIGN_OR_RETURN(const probe::DeviceRates rates,
                      probe::MeasureDevice(device, {}));
  return rates.read_gb_per_s;
}

class OpBench {
 public:
  explicit OpBench(const OpBenchOptions& options)
      : options_(options), layer_(options.shape, options.seed) {}

  Result<OpReport> Run();

 private:
  struct Samples {
    std::vector<double> in_place, move, compute;
  };

  bool NeedsHost() const {
    return !std::ranges::all_of(options_.targets, IsTimedBySim);
  }
  Status MakeHost();
  Status MeasureHost();
  Status MeasureDevice(const OpTarget& target);
  Result<std::unique_ptr<DeviceSubject>> Open(const OpTarget& target,
                                              device::SimCounts& counts);
  Status AddSparse(OpSubject& subject);
  // device: null if nobody takes them.
  Status AddMoves(DeviceSubject* device);
  void AddMoveRows(double share, const std::vector<Samples>& samples);
  // `ids` in place, and moved_ there.
  Status MoveOnce(DeviceSubject* device, std::span<const uint32_t> ids,
                  size_t batch, Samples& samples);
  Result<double> InPlace(const DeviceSubject* device,
                         std::span<const uint32_t> ids, size_t batch);

  const OpBenchOptions& options_;
  OpLayer layer_;
  std::unique_ptr<OpSubject> host_;
  std::vector<uint32_t> moved_;  // of the share at hand
  OpReport report_;
};

Result<OpReport> OpBench::Run() {
  report_ = {.isa = std::string(NameOf(options_.isa)),
             .shape = options_.shape,
             .rounds = options_.rounds,
             .seed = options_.seed,
             .most_bytes = options_.most_bytes};
  if (NeedsHost()) TC_RETURN_IF_ERROR(MakeHost());
  uint64_t num_done = 0;
  for (const OpTarget& target : options_.targets) {
    TC_RETURN_IF_ERROR(IsHost(target) ? MeasureHost() : MeasureDevice(target));
    ReportProgress(options_.progress, "op", ++num_done,
                   options_.targets.size());
  }
  return std::move(report_);
}

Status OpBench::MakeHost() {
  const bool is_asked = std::ranges::any_of(options_.targets, IsHost);
  TC_ASSIGN_OR_RETURN(
      host_, MakeHostSubject(layer_, {.num_threads = options_.num_threads,
                                      .isa = options_.isa,
                                      .most_bytes = options_.most_bytes,
                                      .measures_roof = is_asked}));
  return {};
}

Status OpBench::MeasureHost() {
  TC_RETURN_IF_ERROR(AddSparse(*host_));
  // Beside a device its times are in the device's rows.
  const bool is_alone = options_.targets.size() == 1;
  return is_alone ? AddMoves(nullptr) : Status();
}

Result<std::unique_ptr<DeviceSubject>> OpBench::Open(
    const OpTarget& target, device::SimCounts& counts) {
  OpDeviceOptions options = {.device = target.device,
                             .most_bytes = options_.most_bytes};
  for (const double share : options_.shares) {
    options.most_moved = std::max(options.most_moved,
                                  CountOf(options_.shape.num_neurons, share));
  }
  if (target.machine) {
    options.device = device::MakeSim(
        *target.machine,
        {.time_only = true,
         .counts = [&counts](const kernels::DeviceOp&) { return counts; }});
    options.counts = &counts;
  }
  TC_ASSIGN_OR_RETURN(options.roof_gb_per_s, RoofOf(target, *options.device));
  return DeviceSubject::Make(layer_, options);
}

Status OpBench::MeasureDevice(const OpTarget& target) {
  device::SimCounts counts;
  TC_ASSIGN_OR_RETURN(const auto device, Open(target, counts));
  TC_RETURN_IF_ERROR(AddSparse(*device));
  return AddMoves(device.get());
}

Status OpBench::AddSparse(OpSubject& subject) {
  report_.subjects.push_back(subject.facts());
  TC_ASSIGN_OR_RETURN(std::vector<OpSparseRow> rows,
                      MeasureSparse(subject, layer_, options_));
  for (OpSparseRow& row : rows) {
    row.subject = report_.subjects.size() - 1;
    report_.sparse.push_back(row);
  }
  return {};
}

Status OpBench::AddMoves(DeviceSubject* device) {
  for (const double share : options_.shares) {
    const Random seeded(options_.seed +
                        static_cast<uint64_t>(std::llround(1e6 * share)));
    moved_ = DrawIds(options_.shape.num_neurons, share, seeded);
    if (device != nullptr) TC_RETURN_IF_ERROR(device->SetMoved(moved_));
    std::vector<Samples> samples(options_.batches.size());
    Random random = seeded;
    for (int round = 0; round <= options_.rounds; ++round) {
      for (size_t i = 0; i < samples.size(); ++i) {
        if (round == 1) samples[i] = {};  // what was before is no round
        // Of other neurons each time, or the cache would have them.
        const std::vector<uint32_t> ids =
            DrawIds(options_.shape.num_neurons, share, Random(random.Next()));
        TC_RETURN_IF_ERROR(
            MoveOnce(device, ids, options_.batches[i], samples[i]));
      }
    }
    AddMoveRows(share, samples);
  }
  return {};
}

void OpBench::AddMoveRows(double share, const std::vector<Samples>& samples) {
  for (size_t i = 0; i < samples.size(); ++i) {
    OpMoveRow row = {.subject = report_.subjects.size() - 1,
                     .share = share,
                     .num_neurons = moved_.size(),
                     .batch = options_.batches[i],
                     .in_place_seconds = MedianOf(samples[i].in_place)};
    if (!samples[i].move.empty()) {
      row.move_seconds = MedianOf(samples[i].move);
      row.compute_seconds = MedianOf(samples[i].compute);
    }
    report_.moves.push_back(row);
  }
}

Status OpBench::MoveOnce(DeviceSubject* device, std::span<const uint32_t> ids,
                         size_t batch, Samples& samples) {
  TC_ASSIGN_OR_RETURN(samples.in_place.emplace_back(),
                      InPlace(device, ids, batch));
  if (device == nullptr) return {};
  TC_ASSIGN_OR_RETURN(const OpMoveTimes times, device->Move(batch));
  samples.move.push_back(times.move);
  samples.compute.push_back(times.compute);
  return CheckOut(*device, layer_,
                  fmt::format("{}, {} neurons moved there, batch {}",
                              device->facts().name, moved_.size(), batch),
                  moved_, batch, false);
}

// On the host: this one, or the one that the machine file describes, by the
// bytes that it reads.
Result<double> OpBench::InPlace(const DeviceSubject* device,
                                std::span<const uint32_t> ids, size_t batch) {
  if (device != nullptr && device->sim() != nullptr) {
    const size_t num_groups = (batch + OpLayer::kRows - 1) / OpLayer::kRows;
    const double begin = device->sim()->now();
    device->sim()->HostWork(num_groups * ids.size() *
                            options_.shape.neuron_bytes());
    return device->sim()->now() - begin;
  }
  TC_ASSIGN_OR_RETURN(const double seconds, host_->Sparse(ids, batch));
  TC_RETURN_IF_ERROR(CheckOut(
      *host_, layer_,
      fmt::format("host, {} neurons in place, batch {}", ids.size(), batch),
      ids, batch, false));
  return seconds;
}

}  // namespace

Result<std::vector<OpSparseRow>> MeasureSparse(OpSubject& subject,
                                               OpLayer& layer,
                                               const OpBenchOptions& options) {
  const size_t num_neurons = options.shape.num_neurons;
  const size_t num_sparse = options.sparsities.size();
  const std::string name = subject.facts().name;
  std::vector<std::vector<double>> samples(1 + num_sparse);
  std::vector<OpSparseRow> rows(1 + num_sparse);
  rows[0] = {.num_neurons = num_neurons, .num_bytes = subject.dense_bytes()};
  for (int round = 0; round <= options.rounds; ++round) {
    if (round == 1) samples.assign(samples.size(), {});  // it was no round
    TC_ASSIGN_OR_RETURN(samples[0].emplace_back(), subject.Dense());
    TC_RETURN_IF_ERROR(CheckOut(subject, layer, name + ", the dense product",
                                DrawIds(num_neurons, 1.0, Random(0)), 1, true));
    for (size_t i = 0; i < num_sparse; ++i) {
      const double sparsity = options.sparsities[i];
      const std::vector<uint32_t> ids = DrawIds(
          num_neurons, 1.0 - sparsity,
          Random(options.seed + 1000 * (i + 1) + static_cast<uint64_t>(round)));
      TC_ASSIGN_OR_RETURN(samples[1 + i].emplace_back(),
                          subject.Sparse(ids, 1));
      TC_RETURN_IF_ERROR(CheckOut(
          subject, layer,
          fmt::format("{} at a sparsity of {} %", name, 100 * sparsity), ids, 1,
          false));
      rows[1 + i] = {.sparsity = sparsity,
                     .num_neurons = ids.size(),
                     .num_bytes = ids.size() * subject.neuron_bytes()};
    }
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].seconds = MedianOf(samples[i]);
    rows[i].dense_seconds = rows[0].seconds;
  }
  return rows;
}

std::optional<double> SparseWinsFrom(const OpReport& report, size_t subject) {
  std::vector<OpSparseRow> rows;
  for (const OpSparseRow& row : report.sparse) {
    if (row.subject == subject && row.sparsity) rows.push_back(row);
  }
  std::ranges::sort(rows, std::greater(),
                    [](const OpSparseRow& row) { return *row.sparsity; });
  std::optional<double> from;
  for (const OpSparseRow& row : rows) {
    if (row.seconds >= row.dense_seconds) break;
    from = row.sparsity;
  }
  return from;
}

std::optional<size_t> MovingWinsFrom(const OpReport& report, size_t subject,
                                     double share) {
  std::optional<size_t> from;
  for (const OpMoveRow& row : report.moves) {
    if (row.subject != subject || row.share != share || !row.sum()) continue;
    if (*row.sum() >= row.in_place_seconds) {
      from.reset();
    } else if (!from) {
      from = row.batch;
    }
  }
  return from;
}

std::optional<double> PercentOfBound(const OpReport& report,
                                     const OpSparseRow& row) {
  const std::optional<double>& roof =
      report.subjects[row.subject].roof_gb_per_s;
  if (!roof) return std::nullopt;
  return 100 * row.gb_per_s() / *roof;
}

Result<OpReport> RunOpBench(const OpBenchOptions& options) {
  TC_RETURN_IF_ERROR(CheckShape(options.shape));
  if (options.targets.empty() || options.rounds < 1) {
    return Fail(ErrorCode::kInvalidArgument,
                "nothing to measure: {} devices, {} rounds",
                options.targets.size(), options.rounds);
  }
  return OpBench(options).Run();
}

}  // namespace thermocline::bench

// A device as one who computes a layer's neurons, of its own memory or of what
// is moved there.
#ifndef THERMOCLINE_BENCH_OP_DEVICE_H_
#define THERMOCLINE_BENCH_OP_DEVICE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "bench/op_layer.h"
#include "bench/op_subject.h"
#include "device/device.h"
#include "device/sim/op_check.h"
#include "device/sim/sim_device.h"
#include "kernels/device_ops.h"

namespace thermocline::bench {

struct OpMoveTimes {
  double move = 0.0;     // records over the link, and waiting for it
  double compute = 0.0;  // of them, and waiting for it
};

struct OpDeviceOptions {
  std::shared_ptr<device::Device> device;
  // Set before each operation of a device that computes nothing but times
  // (SimOptions::counts returns it); null: it computes.
  device::SimCounts* counts = nullptr;
  std::optional<double> roof_gb_per_s;
  uint64_t most_bytes = 0;  // that the weights may take
  size_t most_moved = 0;    // neurons of a SetMoved
};

// Times are what one more operation adds to a stream of them: launches as far
// as they do not overlap, not what waiting costs; but of Move, which waits.
class DeviceSubject final : public OpSubject {
 public:
  // Copies the weights over. kUnsupported: the device cannot compute the type.
  // kResourceExhausted: there is too little memory of either kind. The layer
  // outlives it.
  static Result<std::unique_ptr<DeviceSubject>> Make(
      const OpLayer& layer, const OpDeviceOptions& options);

  const OpFacts& facts() const override { return facts_; }
  Result<double> Dense() override;
  Result<double> Sparse(std::span<const uint32_t> ids,
                        size_t num_rows) override;
  std::span<const float> out(size_t row) const override;
  uint64_t dense_bytes() const override;
  uint64_t neuron_bytes() const override { return record_bytes_; }

  // Lays the records of these neurons side by side into pinned memory.
  Status SetMoved(std::span<const uint32_t> ids);
  // Copies those over in one piece, and computes them for so many rows, by
  // OpLayer::kRows at once.
  Result<OpMoveTimes> Move(size_t num_rows);

  // Null: not a simulated one.
  device::SimDevice* sim() const { return device::AsSim(device_.get()); }

 private:
  DeviceSubject(const OpLayer& layer, const OpDeviceOptions& options);
  bool computes() const { return counts_ == nullptr; }
  double Now() const;
  // Operations that SecondsEach enqueues beside the first, and sets for all.
  int more_runs() const;
  size_t num_sets() const { return static_cast<size_t>(more_runs()) + 2; }
  size_t num_words() const;  // of a set
  Result<device::Buffer> Room(uint64_t num_bytes, device::MemoryKind kind,
                              std::string_view what);
  Status Prepare(const OpDeviceOptions& options);
  Status SetCopies(const OpDeviceOptions& options);
  Status AllocateSmall(size_t most_moved);
  void SetArguments();
  Status FillRecords();
  Status FillMatrices();
  // Rows [0, num_rows) of row_bytes, in pieces of host memory.
  template <typename Write>
  Status FillRows(std::byte* to, size_t num_rows, size_t row_bytes,
                  const Write& write);
  void PackRecord(size_t neuron, std::byte* out);
  template <typename Enqueue>
  Result<double> SecondsEach(const Enqueue& enqueue);
  Status EnqueueDense();
  Status PutSets(std::span<const uint32_t> ids);
  // Rows in groups; args but num_tokens.
  Status EnqueueSparse(kernels::SparseFfnArgs args, size_t num_rows);
  Status ReadOut(size_t num_rows);

  const OpLayer& layer_;
  std::shared_ptr<device::Device> device_;
  device::SimCounts* counts_;
  OpFacts facts_;
  OpCopies copies_;
  device::Stream stream_{};
  size_t row_bytes_ = 0, down_row_bytes_ = 0, record_bytes_ = 0;
  device::Buffer records_, matrices_, small_, moved_;  // the device's
  device::Buffer pinned_;
  kernels::SparseFfnArgs sparse_, move_;
  kernels::GemvArgs gate_, up_, down_;
  kernels::ActivateArgs activate_;
  uint32_t* sets_ = nullptr;
  int32_t* moved_slots_ = nullptr;
  size_t num_moved_ = 0;
  size_t next_records_ = 0, next_matrices_ = 0;
  std::vector<std::byte> raw_row_;
  std::vector<float> out_;
};

}  // namespace thermocline::bench

#endif  // THERMOCLINE_BENCH_OP_DEVICE_H_

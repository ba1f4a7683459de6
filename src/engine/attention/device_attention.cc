#include "engine/attention/device_attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "compute/stage_times.h"
#include "engine/attention/device_attention_arrays.h"
#include "engine/device/weight_loader.h"
#include "engine/kv/kv_layout.h"
#include "kernels/device_ops.h"

namespace thermocline::engine {
namespace {

using kernels::kDeviceRows;

Status CheckHeadWidth(std::string_view name, size_t width) {
  if (width % 8 == 0 && width <= kernels::kDeviceMaxWidth) return {};
  return Fail(ErrorCode::kUnsupported,
              "heads' {} have {} elements: the device attends with multiples "
              "of 8, up to {}",
              name, width, kernels::kDeviceMaxWidth);
}

class DeviceAttention final : public AttentionExecutor {
 public:
  DeviceAttention(const DeviceAttentionParts& parts, device::Buffer memory,
                  const AttentionOnDevice& weights)
      : parts_(parts),
        spec_(parts.config->layers[parts.layer_idx].attention),
        lane_(*parts.lane),
        memory_(std::move(memory)),
        weights_(weights) {}

  Status Run(const AttentionCall& call) override {
    const compute::ScopedStage stage(*parts_.compute, compute::Stage::kDevice);
    AccountBytes(*parts_.compute, compute::Stage::kDevice,
                 BytesRead(call.runs));
    RowsLeft rest(call.runs);
    for (size_t first = 0; first < call.num_rows; first += kDeviceRows) {
      const size_t count = std::min(kDeviceRows, call.num_rows - first);
      int64_t num_positions = 0;
      for (size_t t = 0; t < count; ++t) {
        rows_[t] = rest.Take();
        num_positions = std::max(num_positions, rows_[t].position + 1);
      }
      TC_RETURN_IF_ERROR(OfDevice(RunRows(call, first, count, num_positions),
                                  parts_.layer_idx, "attention"));
    }
    return {};
  }

 private:
  struct Row {
    KvSequence* sequence = nullptr;
    int64_t position = 0;
  };

  // Rows of a call, in their order.
  class RowsLeft {
   public:
    explicit RowsLeft(std::span<const SequenceRows> runs) : runs_(runs) {}

    Row Take() {
      while (taken_ == runs_.front().num_rows) {
        runs_ = runs_.subspan(1);
        taken_ = 0;
      }
      const SequenceRows& run = runs_.front();
      return {run.sequence,
              run.first_position + static_cast<int64_t>(taken_++)};
    }

   private:
    std::span<const SequenceRows> runs_;
    size_t taken_ = 0;  // of the first run
  };

  // Those of rows_: they are [first, first + count) of the call.
  Status RunRows(const AttentionCall& call, size_t first, size_t count,
                 int64_t num_positions) {
    const auto carve = [&](std::byte* base) {
      return CarveAttention(base, *parts_.config, parts_.layer_idx, count,
                            num_positions);
    };
    const AttentionArrays host = carve(lane_.pinned_memory());
    const AttentionArrays there = carve(lane_.device_memory());
    const auto stride = static_cast<uint32_t>(KvPagesFor(num_positions));
    Pack(call, first, count, stride, host);
    device::Device& device = lane_.device();
    TC_RETURN_IF_ERROR(
        device.Copy(lane_.stream(), there.x, host.x, host.bytes_in));
    TC_RETURN_IF_ERROR(Project(there, count));
    TC_RETURN_IF_ERROR(Attend(there, count, stride, num_positions));
    TC_RETURN_IF_ERROR(
        device.Copy(lane_.stream(), host.k, there.k, host.bytes_out));
    TC_RETURN_IF_ERROR(device.Record(lane_.stream(), lane_.done()));
    TC_RETURN_IF_ERROR(device.Synchronize(lane_.done()));
    Unpack(call, first, count, host);
    return {};
  }

  void Pack(const AttentionCall& call, size_t first, size_t count,
            uint32_t stride, const AttentionArrays& host) const {
    const size_t num_pairs = NumRopePairs(*parts_.config, spec_);
    for (size_t t = 0; t < count; ++t) {
      const Row& row = rows_[t];
      const auto copy = [&](const compute::Rows& from, size_t width,
                            float* to) {
        std::copy_n(from.row(first + t), width, to + t * width);
      };
      copy(call.normed, parts_.config->width, host.x);
      if (num_pairs > 0) {
        copy(call.rope_cos, num_pairs, host.cos);
        copy(call.rope_sin, num_pairs, host.sin);
      }
      const KvSequence& sequence = *row.sequence;
      const auto page_idx = static_cast<size_t>(row.position / kKvPage);
      for (size_t i = 0; i <= page_idx; ++i) {
        host.page_table[t * stride + i] = sequence.page_of_pool(i);
      }
      host.places[t] = sequence.page_of_pool(page_idx) * kernels::kDevicePage +
                       static_cast<uint32_t>(row.position % kKvPage);
      host.counts[t] = static_cast<uint32_t>(row.position + 1);
    }
  }

  // q, k, v of the rows.
  Status Project(const AttentionArrays& there, size_t count) {
    if (count == 1 && weights_.AreOneMatrix() && there.AreOneRow(spec_)) {
      return ProjectAtOnce(there);
    }
    TC_RETURN_IF_ERROR(
        Multiply(weights_.q, weights_.q_bias, there, there.x, count, there.q));
    TC_RETURN_IF_ERROR(
        Multiply(weights_.k, weights_.k_bias, there, there.x, count, there.k));
    TC_RETURN_IF_ERROR(
        Multiply(weights_.v, weights_.v_bias, there, there.x, count, there.v));
    TC_RETURN_IF_ERROR(
        NormAndRotate(weights_.q_norm, spec_.num_heads, there, count, there.q));
    return NormAndRotate(weights_.k_norm, spec_.num_kv_heads, there, count,
                         there.k);
  }

  // Of one row: fewer launches, the same bits.
  Status ProjectAtOnce(const AttentionArrays& there) {
    kernels::DeviceMatrix qkv = weights_.q;
    qkv.num_rows += weights_.k.num_rows + weights_.v.num_rows;
    TC_RETURN_IF_ERROR(
        Multiply(qkv, weights_.q_bias, there, there.x, 1, there.q));
    if (weights_.q_norm != nullptr || weights_.k_norm != nullptr) {
      TC_RETURN_IF_ERROR(
          NormAndRotate(weights_.q_norm, spec_.num_heads, there, 1, there.q));
      return NormAndRotate(weights_.k_norm, spec_.num_kv_heads, there, 1,
                           there.k);
    }
    return NormAndRotate(nullptr, spec_.num_heads + spec_.num_kv_heads, there,
                         1, there.q);
  }

  Status Multiply(const kernels::DeviceMatrix& matrix, const float* bias,
                  const AttentionArrays& there, const float* x, size_t count,
                  float* out) {
    return Enqueue(kernels::GemvArgs{.weights = matrix,
                                     .bias = bias,
                                     .num_tokens = static_cast<uint32_t>(count),
                                     .x = x,
                                     .out = out,
                                     .scratch = there.scratch});
  }

  // Heads of q or k in place, where the model has weights for it, and a rope.
  Status NormAndRotate(const float* norm, size_t num_heads,
                       const AttentionArrays& there, size_t count,
                       float* heads) {
    const auto width = static_cast<uint32_t>(spec_.key_width);
    if (norm != nullptr) {
      TC_RETURN_IF_ERROR(Enqueue(kernels::NormArgs{
          .kind = NormKind::kRms,
          .epsilon = parts_.config->norm_epsilon,
          .num_rows = static_cast<uint32_t>(count * num_heads),
          .n = width,
          .x = heads,
          .weight = norm,
          .out = heads}));
    }
    if (spec_.rope == model::AttentionSpec::kNoRope) return {};
    return Enqueue(kernels::RopeArgs{
        .kind = parts_.config->ropes[static_cast<size_t>(spec_.rope)].kind,
        .num_tokens = static_cast<uint32_t>(count),
        .num_heads = static_cast<uint32_t>(num_heads),
        .head_width = width,
        .num_pairs = static_cast<uint32_t>(NumRopePairs(*parts_.config, spec_)),
        .cos = there.cos,
        .sin = there.sin,
        .heads = heads});
  }

  Status Attend(const AttentionArrays& there, size_t count, uint32_t stride,
                int64_t num_positions) {
    const kernels::DeviceKv& kv = parts_.kv->of(parts_.layer_idx);
    TC_RETURN_IF_ERROR(Enqueue(
        kernels::KvAppendArgs{.kv = kv,
                              .num_tokens = static_cast<uint32_t>(count),
                              .places = there.places,
                              .k = there.k,
                              .v = there.v}));
    TC_RETURN_IF_ERROR(Enqueue(kernels::DecodeAttentionArgs{
        .kv = kv,
        .num_tokens = static_cast<uint32_t>(count),
        .num_heads = static_cast<uint32_t>(spec_.num_heads),
        .scale = 1.0f / std::sqrt(static_cast<float>(spec_.key_width)),
        .max_positions = static_cast<uint32_t>(num_positions),
        .q = there.q,
        .page_table = there.page_table,
        .table_stride = stride,
        .counts = there.counts,
        .out = there.attended,
        .partials = there.partials}));
    return Multiply(weights_.out, weights_.out_bias, there, there.attended,
                    count, there.out);
  }

  Status Enqueue(const kernels::DeviceOp& op) {
    return lane_.device().Run(lane_.stream(), op);
  }

  // The host has the keys and values as well.
  void Unpack(const AttentionCall& call, size_t first, size_t count,
              const AttentionArrays& host) const {
    const size_t width = parts_.config->width;
    const size_t k_width = spec_.num_kv_heads * spec_.key_width;
    const size_t v_width = spec_.num_kv_heads * spec_.value_width;
    for (size_t t = 0; t < count; ++t) {
      std::copy_n(host.out + t * width, width, call.out.row(first + t));
      rows_[t].sequence->Put(*parts_.compute->kernels, parts_.layer_idx,
                             rows_[t].position, host.k + t * k_width,
                             host.v + t * v_width);
    }
  }

  // Weights, and positions, those that several rows share once.
  size_t BytesRead(std::span<const SequenceRows> runs) const {
    size_t num_positions = 0;
    for (const SequenceRows& run : runs) {
      num_positions += static_cast<size_t>(run.first_position) + run.num_rows;
    }
    return memory_.size() + num_positions * spec_.num_kv_heads *
                                (spec_.key_width + spec_.value_width) *
                                sizeof(uint16_t);
  }

  DeviceAttentionParts parts_;
  const model::AttentionSpec& spec_;
  DeviceLane& lane_;
  device::Buffer memory_;
  AttentionOnDevice weights_;
  std::array<Row, kDeviceRows> rows_;
};

}  // namespace

Result<uint64_t> DeviceAttentionBytes(const model::Config& config,
                                      size_t layer_idx,
                                      const model::AttentionWeights& weights,
                                      const device::RowLayout& layout) {
  const model::AttentionSpec& spec = config.layers[layer_idx].attention;
  TC_RETURN_IF_ERROR(CheckHeadWidth("keys", spec.key_width));
  TC_RETURN_IF_ERROR(CheckHeadWidth("values", spec.value_width));
  WeightLoader counter(layout);
  TC_RETURN_IF_ERROR(LoadAttention(weights, counter));
  return counter.used();
}

LaneNeed DeviceAttentionNeed(const model::Config& config, size_t layer_idx,
                             int64_t context) {
  const AttentionArrays most =
      CarveAttention(nullptr, config, layer_idx, kDeviceRows, context);
  return {
      .device_bytes = most.num_bytes,
      .pinned_bytes = std::max(most.pinned_bytes, WeightLoader::kStagingBytes)};
}

Result<std::unique_ptr<AttentionExecutor>> MakeDeviceAttention(
    const DeviceAttentionParts& parts) {
  device::Device& device = parts.lane->device();
  TC_ASSIGN_OR_RETURN(const uint64_t num_bytes,
                      DeviceAttentionBytes(*parts.config, parts.layer_idx,
                                           *parts.weights, device.layout()));
  TC_ASSIGN_OR_RETURN(
      device::Buffer memory,
      device.Allocate(num_bytes, parts.memory, "the weights of attention"));
  WeightLoader loader(parts.lane, memory.data());
  TC_ASSIGN_OR_RETURN(const AttentionOnDevice weights,
                      LoadAttention(*parts.weights, loader));
  return std::make_unique<DeviceAttention>(parts, std::move(memory), weights);
}

}  // namespace thermocline::engine

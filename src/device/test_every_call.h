// A small layer that makes every call of a device, of every kind of operation.
#ifndef THERMOCLINE_DEVICE_TEST_EVERY_CALL_H_
#define THERMOCLINE_DEVICE_TEST_EVERY_CALL_H_

#include <cstring>
#include <utility>
#include <vector>

#include "device/device.h"
#include "kernels/device_ops.h"
#include "kernels/testing.h"

namespace thermocline::device {

// Ends with the first call that fails; what it allocated is freed by then. The
// device need not compute: what is read back does not matter.
class EveryCall {
 public:
  static constexpr uint32_t kRows = 3, kWidth = 64, kNeurons = 96, kRank = 32;
  static constexpr uint32_t kSlots = 40, kHeads = 4, kKvHeads = 2;
  static constexpr uint32_t kHeadWidth = 16, kPages = 4;

  explicit EveryCall(Device& device) : device_(device) {}

  Status Run() {
    TC_RETURN_IF_ERROR(device_.Info());
    TC_ASSIGN_OR_RETURN(stream_, device_.MakeStream(Priority::kNormal));
    TC_ASSIGN_OR_RETURN(copies_, device_.MakeStream(Priority::kHigh));
    TC_ASSIGN_OR_RETURN(ready_, device_.MakeEvent());
    TC_RETURN_IF_ERROR(Fill());
    TC_RETURN_IF_ERROR(Layer());
    TC_RETURN_IF_ERROR(device_.BeginGraph(stream_));
    TC_RETURN_IF_ERROR(Layer());
    TC_ASSIGN_OR_RETURN(const Graph graph, device_.EndGraph(stream_));
    TC_RETURN_IF_ERROR(device_.Launch(stream_, graph));
    TC_RETURN_IF_ERROR(device_.Launch(stream_, graph));
    return Finish();
  }

  // The layer's output, once Run has succeeded.
  const float* output() const { return output_; }

 private:
  template <typename T>
  Result<T*> Room(size_t count, MemoryKind kind = MemoryKind::kDevice) {
    TC_ASSIGN_OR_RETURN(Buffer buffer, device_.Allocate(count * sizeof(T), kind,
                                                        "every call's memory"));
    T* data = reinterpret_cast<T*>(buffer.data());
    buffers_.push_back(std::move(buffer));
    return data;
  }

  // Through pinned memory and the other stream.
  template <typename T>
  Result<T*> Put(const std::vector<T>& values) {
    TC_ASSIGN_OR_RETURN(T* const staged,
                        Room<T>(values.size(), MemoryKind::kPinned));
    std::memcpy(staged, values.data(), values.size() * sizeof(T));
    TC_ASSIGN_OR_RETURN(T* const to, Room<T>(values.size()));
    TC_RETURN_IF_ERROR(
        device_.Copy(copies_, to, staged, values.size() * sizeof(T)));
    return to;
  }

  Result<kernels::DeviceMatrix> PutMatrix(uint32_t num_rows, uint32_t n,
                                          uint64_t seed) {
    const kernels::WeightRows rows(DType::kQ8_0, num_rows, n, 0, seed);
    const size_t row_bytes = device_.layout().RowBytes(DType::kQ8_0, n);
    std::vector<std::byte> packed(num_rows * row_bytes);
    for (size_t r = 0; r < num_rows; ++r) {
      device_.layout().Pack(DType::kQ8_0, rows.row(r), n,
                            packed.data() + r * row_bytes);
    }
    TC_ASSIGN_OR_RETURN(const std::byte* data, Put(packed));
    return kernels::DeviceMatrix{.rows = data,
                                 .row_bytes = row_bytes,
                                 .dtype = DType::kQ8_0,
                                 .num_rows = num_rows,
                                 .n = n};
  }

  Status Fill() {
    TC_RETURN_IF_ERROR(FillRows());
    TC_RETURN_IF_ERROR(FillPages());
    TC_RETURN_IF_ERROR(FillNeurons());
    TC_RETURN_IF_ERROR(device_.Record(copies_, ready_));
    return device_.Wait(stream_, ready_);
  }

  Status FillRows() {
    TC_ASSIGN_OR_RETURN(x_, Put(kernels::RandomFloats(kRows * kWidth, 1)));
    TC_ASSIGN_OR_RETURN(weight_, Put(kernels::RandomFloats(kWidth, 2)));
    TC_ASSIGN_OR_RETURN(norm_, Room<float>(kRows * kWidth));
    TC_ASSIGN_OR_RETURN(q_, Room<float>(kRows * kWidth));
    TC_ASSIGN_OR_RETURN(attended_, Room<float>(kRows * kWidth));
    TC_ASSIGN_OR_RETURN(ffn_, Room<float>(kRows * kWidth));
    TC_ASSIGN_OR_RETURN(output_,
                        Room<float>(kRows * kWidth, MemoryKind::kPinned));
    TC_ASSIGN_OR_RETURN(largest_, Room<uint32_t>(kRows));
    TC_ASSIGN_OR_RETURN(angles_,
                        Put(kernels::RandomFloats(kRows * kHeadWidth, 3)));
    TC_ASSIGN_OR_RETURN(scratch_, Room<std::byte>(kernels::QuantizedRowsBytes(
                                      kNeurons, kRows)));
    TC_ASSIGN_OR_RETURN(projection_, PutMatrix(kWidth, kWidth, 4));
    return {};
  }

  Status FillPages() {
    const size_t part =
        size_t{kKvHeads} * kernels::kDevicePage * kHeadWidth * 2;
    kv_ = {.page_bytes = 2 * part,
           .v_offset = part,
           .num_kv_heads = kKvHeads,
           .k_width = kHeadWidth,
           .v_width = kHeadWidth};
    TC_ASSIGN_OR_RETURN(kv_.pages, Room<std::byte>(kPages * kv_.page_bytes));
    TC_RETURN_IF_ERROR(
        device_.Fill(copies_, kv_.pages, 0, kPages * kv_.page_bytes));
    TC_ASSIGN_OR_RETURN(table_, Put(std::vector<uint32_t>{3, 1, 2, 0, 1, 2}));
    TC_ASSIGN_OR_RETURN(counts_, Put(std::vector<uint32_t>{70, 128, 1}));
    TC_ASSIGN_OR_RETURN(places_, Put(std::vector<uint32_t>{5, 64, 130}));
    TC_ASSIGN_OR_RETURN(partials_, Room<float>(kernels::DecodePartialFloats(
                                       kRows, kHeads, kHeadWidth, 128)));
    return {};
  }

  Status FillNeurons() {
    TC_ASSIGN_OR_RETURN(up_, PutMatrix(kRank, kWidth, 5));
    TC_ASSIGN_OR_RETURN(down_, PutMatrix(kNeurons, kRank, 6));
    TC_ASSIGN_OR_RETURN(records_, PutMatrix(3 * kSlots, kWidth, 7));
    std::vector<int32_t> slots(kNeurons, -1);
    for (uint32_t i = 0; i < kSlots; ++i) {
      slots[2 * i] = static_cast<int32_t>(kSlots - 1 - i);
    }
    TC_ASSIGN_OR_RETURN(slot_of_, Put(slots));
    const size_t num_words = kRows * kernels::DeviceSetWords(kNeurons);
    TC_ASSIGN_OR_RETURN(sets_, Room<uint32_t>(num_words));
    TC_ASSIGN_OR_RETURN(fired_, Room<uint32_t>(num_words));
    TC_ASSIGN_OR_RETURN(num_listed_, Room<uint32_t>(1));
    TC_ASSIGN_OR_RETURN(hidden_, Room<float>(kRows * kRank));
    TC_ASSIGN_OR_RETURN(
        ffn_scratch_,
        Room<std::byte>(kernels::SparseFfnScratchBytes(kWidth, kSlots, kRows)));
    return {};
  }

  Status Layer() {
    const kernels::DeviceOp ops[] = {
        kernels::NormArgs{.epsilon = 1e-5f,
                          .num_rows = kRows,
                          .n = kWidth,
                          .x = x_,
                          .weight = weight_,
                          .out = norm_},
        kernels::GemvArgs{.weights = projection_,
                          .num_tokens = kRows,
                          .x = norm_,
                          .out = q_,
                          .scratch = scratch_},
        kernels::RopeArgs{.num_tokens = kRows,
                          .num_heads = kHeads,
                          .head_width = kHeadWidth,
                          .num_pairs = kHeadWidth / 2,
                          .cos = angles_,
                          .sin = angles_ + kRows * kHeadWidth / 2,
                          .heads = q_},
        kernels::KvAppendArgs{.kv = kv_,
                              .num_tokens = kRows,
                              .places = places_,
                              .k = norm_,
                              .v = x_},
        kernels::DecodeAttentionArgs{.kv = kv_,
                                     .num_tokens = kRows,
                                     .num_heads = kHeads,
                                     .max_positions = 128,
                                     .q = q_,
                                     .page_table = table_,
                                     .table_stride = 2,
                                     .counts = counts_,
                                     .out = attended_,
                                     .partials = partials_},
        kernels::PredictArgs{.up = up_,
                             .down = down_,
                             .num_tokens = kRows,
                             .x = attended_,
                             .hidden = hidden_,
                             .scratch = scratch_,
                             .sets = sets_},
        Ffn(),
        kernels::ActivateArgs{.activation = Activation::kSilu,
                              .count = kRows * kWidth,
                              .up = ffn_,
                              .out = ffn_},
        kernels::AddRowsScaledArgs{.num_tokens = kRows,
                                   .n = kWidth,
                                   .x = ffn_,
                                   .factors = weight_,
                                   .out = x_},
        kernels::ArgMaxArgs{
            .num_tokens = kRows, .n = kWidth, .x = x_, .out = largest_}};
    for (const kernels::DeviceOp& op : ops) {
      TC_RETURN_IF_ERROR(device_.Run(stream_, op));
    }
    return device_.Copy(stream_, output_, x_, kRows * kWidth * sizeof(float));
  }

  kernels::SparseFfnArgs Ffn() const {
    return {.n = kWidth,
            .num_neurons = kNeurons,
            .num_slots = kSlots,
            .num_tokens = kRows,
            .x = attended_,
            .sets = sets_,
            .slot_of = slot_of_,
            .records = records_.rows,
            .record_bytes = 3 * records_.row_bytes,
            .gate_dtype = DType::kQ8_0,
            .up_dtype = DType::kQ8_0,
            .down_dtype = DType::kQ8_0,
            .up_offset = records_.row_bytes,
            .down_offset = 2 * records_.row_bytes,
            .out = ffn_,
            .fired = fired_,
            .num_listed = num_listed_,
            .scratch = ffn_scratch_};
  }

  Status Finish() {
    TC_RETURN_IF_ERROR(device_.Record(stream_, ready_));
    TC_RETURN_IF_ERROR(device_.IsReached(ready_));
    TC_RETURN_IF_ERROR(device_.Synchronize(ready_));
    // To memory that is not pinned.
    std::vector<uint32_t> largest(kRows);
    TC_RETURN_IF_ERROR(device_.Copy(stream_, largest.data(), largest_,
                                    kRows * sizeof(uint32_t)));
    return device_.Synchronize(stream_);
  }

  Device& device_;
  std::vector<Buffer> buffers_;
  Stream stream_{}, copies_{};
  Event ready_{};
  kernels::DeviceKv kv_;
  kernels::DeviceMatrix projection_, up_, down_, records_;
  float *x_ = nullptr, *weight_ = nullptr, *norm_ = nullptr, *q_ = nullptr,
        *attended_ = nullptr, *ffn_ = nullptr, *output_ = nullptr,
        *angles_ = nullptr, *partials_ = nullptr, *hidden_ = nullptr;
  uint32_t *largest_ = nullptr, *table_ = nullptr, *counts_ = nullptr,
           *places_ = nullptr, *sets_ = nullptr, *fired_ = nullptr,
           *num_listed_ = nullptr;
  int32_t* slot_of_ = nullptr;
  std::byte *scratch_ = nullptr, *ffn_scratch_ = nullptr;
};

}  // namespace thermocline::device

#endif  // THERMOCLINE_DEVICE_TEST_EVERY_CALL_H_

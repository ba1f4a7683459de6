#include "synth/tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "model/prepared_names.h"
#include "synth/outline.h"

namespace thermocline::synth {
namespace {

// A number for each matrix with random weights.
enum Matrix : uint64_t { kQuery, kKey, kValue, kOut, kPredictor, kNumMatrices };

uint64_t PlaceOf(uint64_t layer_idx, Matrix matrix) {
  return layer_idx * kNumMatrices + matrix;
}

// Gathers the tensors of one file.
class Lister {
 public:
  Lister(const SynthWeights& weights, SynthLayout layout)
      : weights_(weights), layout_(layout) {}

  std::vector<SynthTensor> List();

 private:
  const SynthPlan& plan() const { return weights_.plan(); }
  const SynthShape& shape() const { return plan().shape; }
  DType dtype() const { return plan().options.dtype; }

  void Add(const std::string& name, DType dtype, std::vector<uint64_t> ne,
           FillFn fill) {
    Shape shape = {.rank = static_cast<int>(ne.size())};
    std::ranges::copy(ne, shape.ne.begin());
    tensors_.push_back({name, dtype, shape, std::move(fill)});
  }
  void AddRows(const std::string& name, DType dtype, uint64_t width,
               uint64_t num_rows, RowFn make) {
    Add(name, dtype, {width, num_rows},
        FillRows(dtype, width, std::move(make)));
  }
  void AddVector(const std::string& name, uint64_t width, float value) {
    Add(name, DType::kF32, {width}, FillConstant(width, value));
  }
  void AddNorm(const std::string& name);
  void AddBias(const std::string& name, uint64_t width, bool is_there) {
    if (is_there) AddVector(name + ".bias", width, 0.0f);
  }
  void AddEmbeddings();
  void AddHead();
  void AddLayer(uint64_t layer_idx);
  void AddAttention(uint64_t layer_idx, const std::string& prefix);
  void AddFusedAttention(uint64_t layer_idx, const std::string& prefix);
  void AddFfn(uint64_t layer_idx, const std::string& prefix);
  void AddMatrices(uint64_t layer_idx, const std::string& prefix);
  void AddRecords(uint64_t layer_idx, const std::string& prefix);
  void AddExperts(const std::string& name, uint64_t columns, uint64_t rows,
                  FillFn fill);
  void AddPredictor(uint64_t layer_idx);
  void AddProfile(uint64_t layer_idx);
  // Of q, k or v.
  FillFn Projection(uint64_t layer_idx, Matrix matrix) const;

  const SynthWeights& weights_;
  SynthLayout layout_;
  std::vector<SynthTensor> tensors_;
};

void Lister::AddNorm(const std::string& name) {
  AddVector(name + ".weight", shape().width, 1.0f);
  AddBias(name, shape().width, shape().arch().norm == NormKind::kLayer);
}

void Lister::AddEmbeddings() {
  AddRows("token_embd.weight", dtype(), shape().width, shape().vocab_size,
          [this_weights = &weights_](uint64_t i, std::span<float> row) {
            this_weights->Embedding(i, row);
          });
  if (!plan().has_positions()) return;
  // In halves: positions that four bits round would be told apart less well.
  AddRows("position_embd.weight", DType::kF16, shape().width,
          shape().context + 2,
          [this_weights = &weights_](uint64_t i, std::span<float> row) {
            this_weights->Position(i, row);
          });
}

void Lister::AddHead() {
  AddNorm("output_norm");
  // PowerInfer's OPT has no head of its own.
  if (layout_ == SynthLayout::kPowerInfer && plan().has_positions()) return;
  const bool is_small = dtype() == DType::kQ4_0 || dtype() == DType::kQ4_K;
  const bool fits = shape().width % InfoOf(DType::kQ6_K).block_elems == 0;
  const DType finer = fits ? DType::kQ6_K : DType::kQ8_0;
  AddRows("output.weight", is_small ? finer : dtype(), shape().width,
          shape().vocab_size,
          [this_weights = &weights_](uint64_t i, std::span<float> row) {
            this_weights->Head(i, row);
          });
}

FillFn Lister::Projection(uint64_t layer_idx, Matrix matrix) const {
  const uint64_t width = shape().width;
  if (layer_idx > 0) {
    return FillRandom(plan(), SynthPart::kAttention, PlaceOf(layer_idx, matrix),
                      dtype(), width, weights_.reading_deviation());
  }
  const uint64_t head_width = shape().head_width();
  const uint64_t heads_per_kv =
      matrix == kQuery ? shape().num_heads / shape().num_kv_heads : 1;
  return FillRows(
      dtype(), width,
      [=, this_weights = &weights_](uint64_t i, std::span<float> row) {
        if (matrix == kValue) {
          this_weights->Value(i, row);
        } else {
          this_weights->QueryOrKey(i / head_width / heads_per_kv,
                                   i % head_width, row);
        }
      });
}

// Falcon's: the rows of q, k and v one behind the other.
void Lister::AddFusedAttention(uint64_t layer_idx, const std::string& prefix) {
  const uint64_t width = shape().width;
  const uint64_t kv_width = shape().kv_width();
  const size_t row_bytes = BytesOf(dtype(), width);
  const uint64_t q_width = shape().attention_width();
  const FillFn parts[] = {Projection(layer_idx, kQuery),
                          Projection(layer_idx, kKey),
                          Projection(layer_idx, kValue)};
  const uint64_t ends[] = {q_width, q_width + kv_width, q_width + 2 * kv_width};
  Add(prefix + "attn_qkv.weight", dtype(), {width, ends[2]},
      [=](uint64_t first, uint64_t count, std::byte* out) {
        uint64_t begin = 0;
        for (size_t p = 0; p < std::size(parts); begin = ends[p++]) {
          const uint64_t from = std::max(first, begin);
          const uint64_t to = std::min(first + count, ends[p]);
          if (from >= to) continue;
          parts[p](from - begin, to - from, out + (from - first) * row_bytes);
        }
      });
}

void Lister::AddAttention(uint64_t layer_idx, const std::string& prefix) {
  const uint64_t width = shape().width;
  const uint64_t q_width = shape().attention_width();
  const uint64_t kv_width = shape().kv_width();
  const bool has_biases = shape().arch().qkv_bias;
  if (shape().arch().parallel_block) {
    AddFusedAttention(layer_idx, prefix);
  } else {
    struct Role {
      const char* name;
      Matrix matrix;
      uint64_t num_rows;
    };
    for (const Role& role :
         {Role{"attn_q", kQuery, q_width}, Role{"attn_k", kKey, kv_width},
          Role{"attn_v", kValue, kv_width}}) {
      Add(prefix + role.name + ".weight", dtype(), {width, role.num_rows},
          Projection(layer_idx, role.matrix));
      AddBias(prefix + role.name, role.num_rows, has_biases);
    }
  }
  if (shape().arch().qk_norm == model::QkNorm::kPerHead) {
    const auto norm = static_cast<float>(weights_.HeadNorm(layer_idx));
    AddVector(prefix + "attn_q_norm.weight", shape().head_width(), norm);
    AddVector(prefix + "attn_k_norm.weight", shape().head_width(), norm);
  }
  const std::string out = prefix + "attn_output";
  Add(out + ".weight", dtype(), {q_width, width},
      layer_idx > 0
          ? FillRandom(plan(), SynthPart::kAttention, PlaceOf(layer_idx, kOut),
                       dtype(), q_width, weights_.attention_out_deviation())
          : FillRows(
                dtype(), q_width,
                [this_weights = &weights_](uint64_t i, std::span<float> row) {
                  this_weights->AttentionOut(i, row);
                }));
  AddBias(out, width, shape().arch().other_biases);
}

// A matrix of the FFN, or those of all experts in one tensor.
void Lister::AddExperts(const std::string& name, uint64_t columns,
                        uint64_t rows, FillFn fill) {
  const uint64_t num_experts = shape().num_experts;
  std::vector<uint64_t> ne = {columns, rows};
  if (num_experts > 0) ne.push_back(num_experts);
  Add(name + (num_experts > 0 ? "_exps.weight" : ".weight"), dtype(), ne,
      std::move(fill));
}

void Lister::AddRecords(uint64_t layer_idx, const std::string& prefix) {
  const neuron::RecordLayout layout = SynthRecordLayout(plan());
  if (shape().arch().gated && !layout.gate) {
    AddExperts(prefix + "ffn_gate", shape().width, shape().ffn_width,
               FillLooks(weights_, layer_idx));
  }
  Add(prefix + model::prepared::kRecords, DType::kI8,
      {layout.stride, shape().num_neurons()}, FillRecords(weights_, layer_idx));
}

void Lister::AddMatrices(uint64_t layer_idx, const std::string& prefix) {
  const uint64_t width = shape().width;
  const uint64_t ffn_width = shape().ffn_width;
  const FillFn looks = FillLooks(weights_, layer_idx);
  const FillFn random = FillRandom(plan(), SynthPart::kUp, layer_idx, dtype(),
                                   width, weights_.reading_deviation());
  const bool gated = shape().arch().gated;
  if (gated) {
    AddExperts(prefix + "ffn_gate", width, ffn_width, looks);
  }
  AddExperts(prefix + "ffn_up", width, ffn_width, gated ? random : looks);
  if (layout_ == SynthLayout::kPowerInfer) {
    AddExperts(prefix + "ffn_down_t", width, ffn_width,
               FillDownTransposed(weights_, layer_idx));
  } else {
    AddExperts(prefix + "ffn_down", ffn_width, width,
               FillDown(weights_, layer_idx));
  }
}

void Lister::AddFfn(uint64_t layer_idx, const std::string& prefix) {
  if (shape().num_experts > 0) {
    AddRows(prefix + "ffn_gate_inp.weight", DType::kF32, shape().width,
            shape().num_experts,
            [layer_idx, this_weights = &weights_](uint64_t i,
                                                  std::span<float> row) {
              this_weights->Router(layer_idx, i, row);
            });
  }
  if (layout_ == SynthLayout::kPrepared) {
    AddRecords(layer_idx, prefix);
  } else {
    AddMatrices(layer_idx, prefix);
  }
  const bool has_biases = shape().arch().other_biases;
  const bool is_transposed = layout_ == SynthLayout::kPowerInfer;
  AddBias(prefix + "ffn_up", shape().ffn_width, has_biases);
  AddBias(prefix + (is_transposed ? "ffn_down_t" : "ffn_down"), shape().width,
          has_biases);
}

void Lister::AddPredictor(uint64_t layer_idx) {
  if (layout_ == SynthLayout::kPlain) return;
  const bool ours = layout_ == SynthLayout::kPrepared;
  if (ours && !plan().options.with_predictor) return;
  const DType type = ours ? DType::kQ8_0 : dtype();
  const uint64_t rank = ours ? plan().rank : plan().powerinfer_rank;
  const auto reads =
      ours ? SynthWeights::Reads::kNormed : SynthWeights::Reads::kStream;
  using model::prepared::OfLayer;
  const auto name = [&](const char* our_name, const char* their_name) {
    return OfLayer(layer_idx,
                   std::string(ours ? our_name : their_name) + ".weight");
  };
  Add(name(model::prepared::kPredictorUp, "fc1"), type, {shape().width, rank},
      FillPredictorUp(weights_, layer_idx, PlaceOf(layer_idx, kPredictor), type,
                      reads));
  AddRows(
      name(model::prepared::kPredictorDown, "fc2"), type, rank,
      shape().num_neurons(),
      [layer_idx, this_weights = &weights_](uint64_t i, std::span<float> row) {
        this_weights->PredictorDown(layer_idx, i, row);
      });
}

void Lister::AddProfile(uint64_t layer_idx) {
  if (layout_ != SynthLayout::kPrepared) return;
  Add(model::prepared::OfLayer(layer_idx, model::prepared::kProfileCounts),
      DType::kI32, {shape().num_neurons()},
      [layer_idx, this_weights = &weights_](
          uint64_t /*first*/, uint64_t /*count*/, std::byte* out) {
        const std::vector<uint32_t> counts =
            ExpectedCounts(*this_weights, layer_idx);
        std::memcpy(out, counts.data(), counts.size() * sizeof(counts[0]));
      });
}

void Lister::AddLayer(uint64_t layer_idx) {
  const std::string prefix = fmt::format("blk.{}.", layer_idx);
  AddNorm(prefix + "attn_norm");
  if (shape().two_norms) AddNorm(prefix + "attn_norm_2");
  AddAttention(layer_idx, prefix);
  if (!shape().arch().parallel_block) AddNorm(prefix + "ffn_norm");
  AddFfn(layer_idx, prefix);
  AddPredictor(layer_idx);
  AddProfile(layer_idx);
}

std::vector<SynthTensor> Lister::List() {
  AddEmbeddings();
  for (uint64_t i = 0; i < plan().num_layers; ++i) AddLayer(i);
  AddHead();
  return std::move(tensors_);
}

}  // namespace

std::vector<SynthTensor> SynthTensors(const SynthWeights& weights,
                                      SynthLayout layout) {
  return Lister(weights, layout).List();
}

}  // namespace thermocline::synth

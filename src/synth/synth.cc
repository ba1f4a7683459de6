#include "synth/synth.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/math.h"
#include "base/units.h"
#include "gguf/file_type.h"
#include "gguf/writer.h"
#include "model/prepared_config.h"
#include "model/prepared_names.h"
#include "model/vocab_metadata.h"
#include "os/file.h"
#include "os/thread_pool.h"

namespace thermocline::synth {
namespace {

using gguf::ValueType;

constexpr uint64_t kPieceBytes = uint64_t{8} << 20;  // written at a time
constexpr float kNormEpsilon = 1e-5f;

// Keys of one architecture: "llama.block_count".
class Keys {
 public:
  Keys(gguf::Writer& writer, std::string_view architecture)
      : writer_(writer), prefix_(std::string(architecture) + ".") {}

  Status Int(const std::string& key, uint64_t value) {
    return writer_.AddInt(prefix_ + key, ValueType::kU32,
                          static_cast<int64_t>(value));
  }
  Status Float(const std::string& key, double value) {
    return writer_.AddFloat(prefix_ + key, static_cast<float>(value));
  }

 private:
  gguf::Writer& writer_;
  std::string prefix_;
};

Status AddExtents(const SynthPlan& plan, gguf::Writer& writer) {
  const SynthShape& shape = plan.shape;
  const model::Architecture& arch = shape.arch();
  Keys keys(writer, shape.architecture);
  TC_RETURN_IF_ERROR(keys.Int("context_length", shape.context));
  TC_RETURN_IF_ERROR(keys.Int("embedding_length", shape.width));
  TC_RETURN_IF_ERROR(keys.Int("block_count", plan.num_layers));
  TC_RETURN_IF_ERROR(keys.Int("feed_forward_length", shape.ffn_width));
  TC_RETURN_IF_ERROR(keys.Int("attention.head_count", shape.num_heads));
  TC_RETURN_IF_ERROR(keys.Int("attention.head_count_kv", shape.num_kv_heads));
  if (shape.head_size > 0) {
    TC_RETURN_IF_ERROR(keys.Int("attention.key_length", shape.head_width()));
    TC_RETURN_IF_ERROR(keys.Int("attention.value_length", shape.head_width()));
  }
  TC_RETURN_IF_ERROR(keys.Int("vocab_size", shape.vocab_size));
  if (arch.rope != RopeKind::kNone) {
    TC_RETURN_IF_ERROR(keys.Int("rope.dimension_count", shape.rope_width()));
    TC_RETURN_IF_ERROR(keys.Float("rope.freq_base", shape.rope_base));
  }
  if (shape.num_experts > 0) {
    TC_RETURN_IF_ERROR(keys.Int("expert_count", shape.num_experts));
    TC_RETURN_IF_ERROR(keys.Int("expert_used_count", shape.experts_used));
    if (arch.mixture == model::Mixture::kAlways) {
      TC_RETURN_IF_ERROR(
          keys.Int("expert_feed_forward_length", shape.ffn_width));
    }
  }
  return keys.Float(arch.norm == NormKind::kRms
                        ? "attention.layer_norm_rms_epsilon"
                        : "attention.layer_norm_epsilon",
                    kNormEpsilon);
}

Status AddMarks(const SynthPlan& plan, gguf::Writer& writer) {
  TC_RETURN_IF_ERROR(writer.AddString("general.architecture",
                                      std::string(plan.shape.architecture)));
  TC_RETURN_IF_ERROR(writer.AddString(
      "general.name",
      fmt::format("synthetic like {}, {}", plan.shape.name, plan.Describe())));
  TC_RETURN_IF_ERROR(writer.AddInt(
      "general.file_type", ValueType::kU32,
      static_cast<int64_t>(gguf::FileTypeOf(plan.options.dtype))));
  TC_RETURN_IF_ERROR(writer.AddInt("general.quantization_version",
                                   ValueType::kU32,
                                   gguf::kQuantizationVersion));
  TC_RETURN_IF_ERROR(writer.AddString(
      model::prepared::kSynthetic,
      fmt::format("like {}, {}, {}, {}", plan.shape.name,
                  Plural(plan.num_layers, "layer"), NameOf(plan.options.dtype),
                  plan.Describe())));
  const bool is_squared = plan.shape.arch().activation == Activation::kRelu2;
  return writer.AddString(model::prepared::kActivation,
                          is_squared ? "relu2" : "relu");
}

Status AddPrepared(const SynthPlan& plan, gguf::Writer& writer) {
  namespace prepared = model::prepared;
  TC_RETURN_IF_ERROR(writer.AddInt(prepared::kVersionKey, ValueType::kU32,
                                   prepared::kVersion));
  const std::vector records(plan.num_layers, SynthRecordLayout(plan));
  TC_RETURN_IF_ERROR(
      model::WriteRecordKeys(records, plan.shape.arch().gated, writer));
  if (!plan.options.with_predictor) return {};
  return writer.AddInt(prepared::kLookahead, ValueType::kU32, 0);
}

// Makes tensors piece by piece, each by all threads.
class TensorWriter {
 public:
  TensorWriter(os::ThreadPool& pool, const SynthJob& job, gguf::Writer& writer,
               uint64_t num_total_bytes)
      : pool_(pool),
        job_(job),
        writer_(writer),
        num_total_bytes_(num_total_bytes) {}

  Status Write(const SynthTensor& tensor);

 private:
  os::ThreadPool& pool_;
  const SynthJob& job_;
  gguf::Writer& writer_;
  uint64_t num_total_bytes_;
  uint64_t num_done_bytes_ = 0;
  std::vector<std::byte> piece_;
};

Status TensorWriter::Write(const SynthTensor& tensor) {
  const uint64_t row_bytes = tensor.row_bytes();
  const uint64_t num_rows = tensor.num_rows();
  const uint64_t rows_per_piece =
      RoundUp(std::max(kPieceBytes / row_bytes, uint64_t{1}), kSynthRowGrain);
  for (uint64_t begin = 0; begin < num_rows; begin += rows_per_piece) {
    if (job_.cancel != nullptr && job_.cancel->load()) {
      return Fail(ErrorCode::kCancelled, "making the model was interrupted");
    }
    ReportProgress(job_.progress, tensor.name, num_done_bytes_,
                   num_total_bytes_);
    const uint64_t count = std::min(rows_per_piece, num_rows - begin);
    piece_.resize(count * row_bytes);
    pool_.ParallelFor(
        count, kSynthRowGrain, [&](size_t from, size_t to, int /*worker_idx*/) {
          tensor.fill(begin + from, to - from, &piece_[from * row_bytes]);
        });
    TC_RETURN_IF_ERROR(writer_.WriteTensorData(piece_));
    num_done_bytes_ += piece_.size();
  }
  return {};
}

}  // namespace

Status CheckPowerInfer(const SynthPlan& plan) {
  if (plan.shape.num_experts > 0) {
    return Fail(ErrorCode::kUnsupported,
                "PowerInfer runs no experts: there is no such file like {}",
                plan.shape.name);
  }
  if (plan.options.dtype != DType::kQ4_0 && plan.options.dtype != DType::kF16) {
    return Fail(ErrorCode::kUnsupported,
                "PowerInfer computes with f16 and q4_0 only, not with {}",
                NameOf(plan.options.dtype));
  }
  return {};
}

Status WriteSynthModel(const SynthWeights& weights, SynthLayout layout,
                       const std::string& output, const SynthJob& job) {
  const SynthPlan& plan = weights.plan();
  const bool is_prepared = layout == SynthLayout::kPrepared;
  const bool is_powerinfer = layout == SynthLayout::kPowerInfer;
  TC_CHECK(!is_powerinfer || CheckPowerInfer(plan).has_value());
  // Not pinned: other programs may be at work.
  TC_ASSIGN_OR_RETURN(
      const auto pool,
      os::ThreadPool::Create({.num_threads = job.num_threads, .pin = false}));
  TC_ASSIGN_OR_RETURN(
      const auto writer,
      gguf::Writer::Create(
          output,
          is_powerinfer ? gguf::Container::kPowerInfer : gguf::Container::kGguf,
          is_prepared ? gguf::Writer::kMaxAlignment
                      : gguf::Writer::kAlignment));
  TC_RETURN_IF_ERROR(AddMarks(plan, *writer));
  TC_RETURN_IF_ERROR(AddExtents(plan, *writer));
  TC_RETURN_IF_ERROR(model::WriteVocab(weights.vocab(), *writer));
  if (is_prepared) TC_RETURN_IF_ERROR(AddPrepared(plan, *writer));
  const std::vector<SynthTensor> tensors = SynthTensors(weights, layout);
  uint64_t num_bytes = 0;
  for (const SynthTensor& tensor : tensors) {
    TC_RETURN_IF_ERROR(
        writer->DeclareTensor(tensor.name, tensor.dtype, tensor.shape));
    num_bytes += tensor.num_rows() * tensor.row_bytes();
  }
  TC_RETURN_IF_ERROR(writer->Start());
  TensorWriter tensor_writer(*pool, job, *writer, num_bytes);
  for (const SynthTensor& tensor : tensors) {
    TC_RETURN_IF_ERROR(tensor_writer.Write(tensor));
  }
  ReportProgress(job.progress, "made", num_bytes, num_bytes);
  return writer->Finish();
}

Status WriteSynthText(const SynthWeights& weights, uint64_t num_words,
                      uint64_t words_per_line, const std::string& output) {
  TC_ASSIGN_OR_RETURN(const auto file, os::AtomicFile::Create(output));
  TC_RETURN_IF_ERROR(file->Write(
      weights.words().Text(weights.vocab(), num_words, words_per_line)));
  return file->Commit();
}

}  // namespace thermocline::synth

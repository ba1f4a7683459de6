#include "synth/synth.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/math.h"
#include "gguf/writer.h"
#include "model/vocab_metadata.h"
#include "os/file.h"
#include "os/thread_pool.h"
#include "synth/outline.h"

namespace thermocline::synth {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{8} << 20;  // written at a time

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
  TC_RETURN_IF_ERROR(AddSynthKeys(weights, layout, *writer));
  TC_RETURN_IF_ERROR(model::WriteVocab(weights.vocab(), *writer));
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

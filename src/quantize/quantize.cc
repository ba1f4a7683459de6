#include "quantize/quantize.h"

#include <algorithm>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/quote.h"
#include "gguf/writer.h"
#include "os/thread_pool.h"
#include "tensor/codec.h"
#include "tensor/element_range.h"

namespace thermocline::quantize {
namespace {

// What a thread takes at a time, and what is written at a time. Rows divide
// into blocks, so elements can be cut at any multiple of the largest block
// whatever the rows are.
constexpr uint64_t kChunkElems = uint64_t{1} << 14;
constexpr uint64_t kPieceElems = uint64_t{1} << 22;
constexpr uint64_t kNone = UINT64_MAX;

bool IsReplaced(std::string_view key) {
  return key.starts_with("split.") || key == "general.alignment" ||
         key == "general.file_type" || key == "general.quantization_version";
}

Status WriteMetadata(const gguf::File& file, const QuantizePlan& plan,
                     gguf::Writer& writer) {
  for (const gguf::KeyValue& kv : file.metadata()) {
    if (!IsReplaced(kv.key)) TC_RETURN_IF_ERROR(writer.AddKeyValue(kv));
  }
  TC_RETURN_IF_ERROR(writer.AddInt("general.file_type", gguf::ValueType::kU32,
                                   static_cast<int64_t>(plan.type)));
  return writer.AddInt("general.quantization_version", gguf::ValueType::kU32,
                       gguf::kQuantizationVersion);
}

// Owns the threads and the memory for one piece of a tensor.
class Quantizer {
 public:
  Quantizer(std::unique_ptr<os::ThreadPool> pool, const gguf::File& file,
            const QuantizeJob& job, gguf::Writer& writer)
      : pool_(std::move(pool)),
        file_(file),
        job_(job),
        writer_(writer),
        values_(static_cast<size_t>(pool_->num_threads()) * kChunkElems),
        encoded_(kPieceElems * sizeof(float)) {}

  Status Write(const QuantizePlan& plan);

 private:
  Status WriteTensor(const QuantizedTensor& tensor);
  // Elements [begin, end) of the tensor.
  Status WritePiece(const QuantizedTensor& tensor, uint64_t begin,
                    uint64_t end);
  // Checks them all, and leaves them in encoded_ if their type changes. The
  // first bad element's index, or kNone.
  uint64_t Convert(const QuantizedTensor& tensor, uint64_t begin, uint64_t end);

  std::unique_ptr<os::ThreadPool> pool_;
  const gguf::File& file_;
  const QuantizeJob& job_;
  gguf::Writer& writer_;
  uint64_t num_total_ = 0;  // bytes, for the progress
  uint64_t num_done_ = 0;
  std::vector<float> values_;       // kChunkElems for each thread
  std::vector<std::byte> encoded_;  // a piece, in whatever type
};

void KeepSmallest(std::atomic<uint64_t>& smallest, uint64_t value) {
  uint64_t seen = smallest.load();
  while (value < seen && !smallest.compare_exchange_weak(seen, value)) {
  }
}

const std::byte* AddressOf(const gguf::TensorInfo& tensor, uint64_t elem) {
  return tensor.data + BytesOf(tensor.dtype, elem);
}

Status DescribeBadElement(const std::string& path,
                          const QuantizedTensor& tensor, uint64_t elem) {
  const gguf::TensorInfo& source = *tensor.source;
  const uint64_t block_elems = InfoOf(source.dtype).block_elems;
  const uint64_t block_begin = elem / block_elems * block_elems;
  std::vector<float> block(block_elems);
  DequantizeRow(source.dtype, AddressOf(source, block_begin), block);
  return Fail(ErrorCode::kCorrupt, "{}: tensor {} has in row {}, column {} {}",
              path, Quote(source.name), elem / source.shape.ne[0],
              elem % source.shape.ne[0],
              DescribeUnstorable(tensor.dtype, block[elem - block_begin]));
}

uint64_t Quantizer::Convert(const QuantizedTensor& tensor, uint64_t begin,
                            uint64_t end) {
  const gguf::TensorInfo& source = *tensor.source;
  std::atomic<uint64_t> first_bad = kNone;
  pool_->ParallelFor(
      end - begin, kChunkElems, [&](size_t from, size_t to, int worker_idx) {
        const std::span values(
            &values_[static_cast<size_t>(worker_idx) * kChunkElems], to - from);
        DequantizeRow(source.dtype, AddressOf(source, begin + from), values);
        if (const auto bad = FindUnstorable(tensor.dtype, values)) {
          KeepSmallest(first_bad, begin + from + *bad);
        } else if (tensor.dtype != source.dtype) {
          QuantizeRow(tensor.dtype, values,
                      &encoded_[BytesOf(tensor.dtype, from)]);
        }
      });
  return first_bad;
}

Status Quantizer::WritePiece(const QuantizedTensor& tensor, uint64_t begin,
                             uint64_t end) {
  const gguf::TensorInfo& source = *tensor.source;
  if (InfoOf(source.dtype).can_compute) {
    const uint64_t bad = Convert(tensor, begin, end);
    if (bad != kNone) return DescribeBadElement(file_.path(), tensor, bad);
  }
  if (tensor.dtype != source.dtype) {
    return writer_.WriteTensorData(
        std::span(encoded_).first(BytesOf(tensor.dtype, end - begin)));
  }
  return writer_.WriteTensorData(
      {AddressOf(source, begin), AddressOf(source, end)});
}

Status Quantizer::WriteTensor(const QuantizedTensor& tensor) {
  const gguf::TensorInfo& source = *tensor.source;
  const uint64_t num_elems = source.shape.num_elems();
  for (uint64_t begin = 0; begin < num_elems; begin += kPieceElems) {
    if (job_.cancel != nullptr && job_.cancel->load()) {
      return Fail(ErrorCode::kCancelled, "quantising was interrupted");
    }
    ReportProgress(job_.progress, Escape(source.name), num_done_, num_total_);
    const uint64_t end = std::min(num_elems, begin + kPieceElems);
    TC_RETURN_IF_ERROR(WritePiece(tensor, begin, end));
    num_done_ += BytesOf(source.dtype, end - begin);
  }
  return {};
}

Status Quantizer::Write(const QuantizePlan& plan) {
  for (const QuantizedTensor& tensor : plan.tensors) {
    TC_RETURN_IF_ERROR(writer_.DeclareTensor(tensor.source->name, tensor.dtype,
                                             tensor.source->shape));
    num_total_ += tensor.source->num_bytes;
  }
  TC_RETURN_IF_ERROR(writer_.Start());
  for (const QuantizedTensor& tensor : plan.tensors) {
    TC_RETURN_IF_ERROR(WriteTensor(tensor));
  }
  ReportProgress(job_.progress, "quantised", num_total_, num_total_);
  return writer_.Finish();
}

}  // namespace

Status WriteQuantized(const gguf::File& file, const QuantizePlan& plan,
                      const std::string& output, const QuantizeJob& job) {
  // Not pinned: other programs may be at work, and nothing here waits long for
  // the slowest thread.
  TC_ASSIGN_OR_RETURN(
      auto pool,
      os::ThreadPool::Create({.num_threads = job.num_threads, .pin = false}));
  TC_ASSIGN_OR_RETURN(const auto writer,
                      gguf::Writer::Create(output, file.container()));
  TC_RETURN_IF_ERROR(WriteMetadata(file, plan, *writer));
  return Quantizer(std::move(pool), file, job, *writer).Write(plan);
}

}  // namespace thermocline::quantize

// make_goldens GOLDENS OUTPUT: what llama.cpp's quantiser makes of
// GOLDENS/llama-gqa-f16.gguf in the types of 32-element blocks, into the folder
// OUTPUT. Ours agrees with it there bit by bit, so those files need not be
// stored; the head of most mixes is Q6_K, where ours differs, and comes from
// llama-gqa-Q6_K.gguf, with the order of keys and tensors. make_testdata.py
// compares the files with the sums of llama.cpp's.
#include <fmt/core.h>

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "gguf/file_type.h"
#include "gguf/gguf.h"
#include "gguf/writer.h"
#include "tensor/codec.h"

namespace thermocline {
namespace {

// What the mix gives the tensor that has `q6_k` in the file of Q6_K.
DType TypeIn(const gguf::FileTypeInfo& mix, const gguf::TensorInfo& q6_k) {
  if (q6_k.dtype != DType::kQ6_K) return q6_k.dtype;
  const bool is_head = q6_k.name == "output.weight";
  return is_head && mix.dtype != DType::kQ8_0 ? DType::kQ6_K : mix.dtype;
}

Status WriteQuantized(const TensorView& original, DType dtype,
                      gguf::Writer& writer) {
  std::vector<float> values(original.shape.num_elems());
  DequantizeRow(original.dtype, original.data, values);
  std::vector<std::byte> blocks(BytesOf(dtype, values.size()));
  QuantizeRow(dtype, values, blocks.data());
  return writer.WriteTensorData(blocks);
}

Status Make(const gguf::File& f16, const gguf::File& q6_k,
            const gguf::FileTypeInfo& mix, const std::string& path) {
  TC_ASSIGN_OR_RETURN(const auto writer, gguf::Writer::Create(path));
  for (const gguf::KeyValue& kv : q6_k.metadata()) {
    TC_RETURN_IF_ERROR(
        kv.key == "general.file_type"
            ? writer->AddInt(kv.key, kv.type, static_cast<int64_t>(mix.type))
            : writer->AddKeyValue(kv));
  }
  for (const gguf::TensorInfo& info : q6_k.tensors()) {
    TC_RETURN_IF_ERROR(
        writer->DeclareTensor(info.name, TypeIn(mix, info), info.shape));
  }
  TC_RETURN_IF_ERROR(writer->Start());
  for (const gguf::TensorInfo& info : q6_k.tensors()) {
    const DType dtype = TypeIn(mix, info);
    TC_RETURN_IF_ERROR(
        dtype == info.dtype
            ? writer->WriteTensorData({info.data, info.num_bytes})
            : WriteQuantized(f16.Tensor(info.name), dtype, *writer));
  }
  return writer->Finish();
}

Status MakeAll(const std::string& goldens, const std::string& output) {
  TC_ASSIGN_OR_RETURN(const auto f16,
                      gguf::File::Open(goldens + "/llama-gqa-f16.gguf"));
  TC_ASSIGN_OR_RETURN(const auto q6_k,
                      gguf::File::Open(goldens + "/llama-gqa-Q6_K.gguf"));
  for (const std::string_view name : {"Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"}) {
    TC_RETURN_IF_ERROR(Make(*f16, *q6_k, *gguf::FindFileType(name),
                            fmt::format("{}/llama-gqa-{}.gguf", output, name)));
  }
  return {};
}

}  // namespace
}  // namespace thermocline

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: make_goldens GOLDENS OUTPUT\n");
    return 2;
  }
  const auto status = thermocline::MakeAll(argv[1], argv[2]);
  if (status) return 0;
  fmt::print(stderr, "make_goldens: {}\n", status.error().message);
  return 1;
}

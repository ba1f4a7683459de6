#include "import/convert.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "base/units.h"
#include "gguf/file_type.h"
#include "gguf/writer.h"
#include "import/checkpoint.h"
#include "import/hf_config.h"
#include "import/hf_tokenizer.h"
#include "import/lfs_pointer.h"
#include "import/tensor_plan.h"
#include "import/tensor_stream.h"
#include "model/vocab_metadata.h"
#include "os/file.h"

namespace thermocline::importer {
namespace {

namespace fs = std::filesystem;
using gguf::ValueType;

constexpr uint64_t kMaxConfigBytes = 16 * kMiB;
constexpr char kRopeFactorsName[] = "rope_freqs.weight";

constexpr DType kOutputTypes[] = {DType::kF32, DType::kF16, DType::kBF16,
                                  DType::kQ8_0, DType::kQ4_0};

std::string In(const std::string& folder, const char* name) {
  return (fs::path(folder) / name).string();
}

Status CheckOutputType(DType dtype) {
  if (std::ranges::find(kOutputTypes, dtype) != std::end(kOutputTypes)) {
    return {};
  }
  return Fail(ErrorCode::kInvalidArgument,
              "cannot convert to {}; f32, f16, bf16, q8_0 and q4_0 can be "
              "chosen",
              NameOf(dtype));
}

Result<HfConfig> ReadConfigOf(const std::string& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    return Fail(
        ErrorCode::kNotFound,
        "{}: {} (a Hugging Face model is a folder with config.json in "
        "it)",
        folder,
        fs::exists(folder, ignored) ? "is not a folder" : "does not exist");
  }
  const std::string path = In(folder, "config.json");
  TC_ASSIGN_OR_RETURN(const auto text, os::ReadFile(path, kMaxConfigBytes));
  TC_RETURN_IF_ERROR(CheckDownloaded(text, path));
  TC_ASSIGN_OR_RETURN(auto config, ParseHfConfig(text, path));
  const std::string more = In(folder, "generation_config.json");
  if (os::HasEntry(more)) {
    TC_ASSIGN_OR_RETURN(const auto generation,
                        os::ReadFile(more, kMaxConfigBytes));
    TC_RETURN_IF_ERROR(ReadGenerationConfig(generation, more, config));
  }
  return config;
}

Result<HfTokenizer> ReadTokenizerOf(const std::string& folder,
                                    const HfConfig& config, uint64_t num_rows) {
  TC_ASSIGN_OR_RETURN(auto sources, ReadTokenizerFiles(folder));
  sources.architecture = config.architecture;
  sources.num_rows = num_rows;
  sources.bos_id = config.bos_id;
  sources.pad_id = config.pad_id;
  sources.eos_ids = config.eos_ids;
  return ParseHfTokenizer(sources);
}

std::string NameOfModel(const HfConfig& config, const std::string& folder) {
  if (!config.name.empty()) return config.name;
  std::error_code ignored;
  fs::path path = fs::canonical(folder, ignored);
  return path.filename().string();
}

Status WriteGeneral(const std::string& name, const HfConfig& config,
                    DType dtype, gguf::Writer& writer) {
  TC_RETURN_IF_ERROR(
      writer.AddString("general.architecture", config.architecture));
  TC_RETURN_IF_ERROR(writer.AddString("general.type", "model"));
  TC_RETURN_IF_ERROR(writer.AddString("general.name", name));
  TC_RETURN_IF_ERROR(
      writer.AddInt("general.file_type", ValueType::kU32,
                    static_cast<int64_t>(gguf::FileTypeOf(dtype))));
  return writer.AddInt("general.quantization_version", ValueType::kU32,
                       gguf::kQuantizationVersion);
}

// The default template, and any others under their names.
Status WriteChatTemplates(const HfTokenizer& tokenizer, gguf::Writer& writer) {
  constexpr char kKey[] = "tokenizer.chat_template";
  std::vector<std::string> names;
  for (const auto& [name, text] : tokenizer.chat_templates) {
    const bool is_default = name == "default";
    if (!is_default) names.push_back(name);
    TC_RETURN_IF_ERROR(writer.AddString(
        is_default ? kKey : std::string(kKey) + "." + name, text));
  }
  if (names.empty()) return {};
  return writer.AddArray("tokenizer.chat_templates",
                         {ValueType::kString, std::move(names)});
}

// Everything that is known before the first byte is written.
struct Job {
  HfConfig config;
  HfTokenizer tokenizer;
  std::vector<PlannedTensor> tensors;
  std::vector<float> rope_factors;  // empty: none
};

Result<Job> Prepare(const std::string& folder, const Checkpoint& checkpoint,
                    DType dtype, HfConfig config) {
  Job job;
  job.config = std::move(config);
  auto tensors = PlanTensors(job.config, checkpoint, dtype);
  if (!tensors) return Annotate(folder, tensors.error());
  job.tensors = std::move(tensors).value();
  const uint64_t num_rows = job.tensors.front().shape.ne[1];
  job.config.vocab_size = static_cast<int64_t>(num_rows);
  TC_ASSIGN_OR_RETURN(job.tokenizer,
                      ReadTokenizerOf(folder, job.config, num_rows));
  const HfRope& rope = job.config.rope;
  if (rope.scaling == HfRope::Scaling::kLlama3) {
    job.rope_factors =
        RopeFactors(rope.llama3, rope.theta, job.config.rotated_width);
  }
  return job;
}

Status WriteTensors(const std::string& folder, const Job& job,
                    const ConvertOptions& options, gguf::Writer& writer) {
  uint64_t num_total = 0;
  for (const PlannedTensor& tensor : job.tensors) {
    TC_RETURN_IF_ERROR(
        writer.DeclareTensor(tensor.name, tensor.dtype, tensor.shape));
    for (const SafeTensor* source : tensor.sources) {
      num_total += source->bytes.size();
    }
  }
  if (!job.rope_factors.empty()) {
    const Shape shape = {{job.rope_factors.size(), 1, 1, 1}, 1};
    TC_RETURN_IF_ERROR(
        writer.DeclareTensor(kRopeFactorsName, DType::kF32, shape));
  }
  TC_RETURN_IF_ERROR(writer.Start());
  uint64_t num_done = 0;
  for (const PlannedTensor& tensor : job.tensors) {
    for (size_t i = 0; i < tensor.sources.size(); ++i) {
      if (options.cancel != nullptr && options.cancel->load()) {
        return Fail(ErrorCode::kCancelled, "the conversion was interrupted");
      }
      ReportProgress(options.progress, tensor.name, num_done, num_total);
      TC_RETURN_IF_ERROR(StreamSource(folder, tensor, i, writer));
      num_done += tensor.sources[i]->bytes.size();
    }
  }
  ReportProgress(options.progress, "converted", num_total, num_total);
  if (job.rope_factors.empty()) return {};
  return writer.WriteTensorData(std::as_bytes(std::span(job.rope_factors)));
}

}  // namespace

Status ConvertHuggingFace(const std::string& folder, const std::string& output,
                          const ConvertOptions& options) {
  TC_RETURN_IF_ERROR(CheckOutputType(options.dtype));
  TC_ASSIGN_OR_RETURN(auto config, ReadConfigOf(folder));
  TC_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(folder));
  TC_ASSIGN_OR_RETURN(const Job job, Prepare(folder, checkpoint, options.dtype,
                                             std::move(config)));
  TC_ASSIGN_OR_RETURN(const auto writer, gguf::Writer::Create(output));
  TC_RETURN_IF_ERROR(WriteGeneral(NameOfModel(job.config, folder), job.config,
                                  options.dtype, *writer));
  TC_RETURN_IF_ERROR(WriteConfig(job.config, *writer));
  TC_RETURN_IF_ERROR(model::WriteVocab(job.tokenizer.vocab, *writer));
  TC_RETURN_IF_ERROR(WriteChatTemplates(job.tokenizer, *writer));
  TC_RETURN_IF_ERROR(WriteTensors(folder, job, options, *writer));
  return writer->Finish();
}

}  // namespace thermocline::importer

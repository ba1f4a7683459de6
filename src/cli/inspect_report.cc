#include "cli/inspect_report.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/log.h"
#include "kernels/isa.h"
#include "model/model.h"
#include "model/vocab_reader.h"
#include "text/tokenizer.h"

namespace thermocline::cli {
namespace {

// A key's value, empty as well when its type is another.
std::optional<int64_t> IntOrNothing(const gguf::File& file,
                                    const std::string& key) {
  return file.Int(key).value_or(std::nullopt);
}

std::optional<std::string> StringOrNothing(const gguf::File& file,
                                           const std::string& key) {
  return file.String(key).value_or(std::nullopt);
}

ModelShape ReadShape(const gguf::File& file, const std::string& architecture) {
  const auto read = [&](const char* key) {
    return IntOrNothing(file, fmt::format("{}.{}", architecture, key));
  };
  ModelShape shape;
  shape.context_length = read("context_length");
  shape.num_layers = read("block_count");
  shape.width = read("embedding_length");
  shape.ffn_width = read("feed_forward_length");
  shape.num_heads = read("attention.head_count");
  shape.num_kv_heads = read("attention.head_count_kv");
  if (!shape.num_kv_heads.has_value()) shape.num_kv_heads = shape.num_heads;
  return shape;
}

void CountTensors(const gguf::File& file, InspectReport& report) {
  report.num_tensors = file.tensors().size();
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    TypeUse& use = report.quantisation[ClassOf(tensor.name)][tensor.dtype];
    ++use.num_tensors;
    use.num_bytes += tensor.num_bytes;
    report.num_weight_bytes += tensor.num_bytes;
    report.num_params += tensor.shape.num_elems();
  }
}

// The vocabulary, or why text cannot be used with it.
void ReadTokenizer(const gguf::File& file, InspectReport& report) {
  auto vocab = model::ReadVocab(file);
  if (!vocab.has_value()) {
    report.tokenizer_problem = vocab.error().message;
    return;
  }
  report.vocab = *std::move(vocab);
  if (!report.vocab.has_value()) return;
  const auto tokenizer = text::Tokenizer::Create(*report.vocab);
  if (!tokenizer.has_value()) {
    report.tokenizer_problem = tokenizer.error().message;
  }
}

// What can be said of a file that is no model for us.
void DescribeParts(const gguf::File& file, InspectReport& report) {
  ReadTokenizer(file, report);
  if (auto config = model::ReadConfig(file); config.has_value()) {
    report.config = *std::move(config);
  }
}

void DescribeModel(const model::Model& model, InspectReport& report) {
  report.config = model.config();
  if (model.tokenizer() != nullptr) {
    report.vocab = model.tokenizer()->vocab();
  } else {
    ReadTokenizer(model.file(), report);
  }
  const engine::SessionOptions options;
  const auto memory = engine::PlanMemory(model.config(), options);
  if (!memory.has_value()) {
    report.cannot_run = memory.error().message;
    return;
  }
  report.memory = *memory;
  report.tied_head = model.weights().tied;
  report.memory_context =
      std::min(model.config().context_length, engine::kDefaultContextMax);
}

}  // namespace

const char* NameOf(TensorClass tensor_class) {
  switch (tensor_class) {
    case TensorClass::kEmbedding:
      return "embedding";
    case TensorClass::kAttention:
      return "attention";
    case TensorClass::kFfn:
      return "ffn";
    case TensorClass::kNorm:
      return "norms";
    case TensorClass::kHead:
      return "head";
    case TensorClass::kOther:
      return "other";
  }
  return "";
}

TensorClass ClassOf(std::string_view tensor_name) {
  const auto contains = [&](std::string_view part) {
    return tensor_name.find(part) != std::string_view::npos;
  };
  // Norms first: "attn_norm" and "ffn_norm" are of their kind, not place.
  if (contains("_norm")) return TensorClass::kNorm;
  if (contains("attn_")) return TensorClass::kAttention;
  if (contains("ffn_")) return TensorClass::kFfn;
  if (contains("token_embd") || contains("position_embd")) {
    return TensorClass::kEmbedding;
  }
  if (tensor_name.starts_with("output.")) return TensorClass::kHead;
  return TensorClass::kOther;
}

std::array<SpecialToken, 6> SpecialTokens(const text::Vocab& vocab) {
  return {{{"bos", vocab.bos},
           {"eos", vocab.eos},
           {"eot", vocab.eot},
           {"eom", vocab.eom},
           {"unk", vocab.unk},
           {"pad", vocab.pad}}};
}

Result<InspectReport> InspectModel(const std::string& path) {
  TC_ASSIGN_OR_RETURN(auto file, gguf::File::Open(path));
  InspectReport report = {};
  report.path = path;
  report.gguf_version = file->version();
  report.num_shards = file->num_shards();
  report.num_file_bytes = file->num_file_bytes();
  report.architecture = StringOrNothing(*file, "general.architecture");
  report.name = StringOrNothing(*file, "general.name");
  report.tokenizer_model = StringOrNothing(*file, "tokenizer.ggml.model");
  report.shape = ReadShape(*file, report.architecture.value_or(""));
  report.isa = kernels::NameOf(kernels::BestIsa());
  CountTensors(*file, report);
  const LogOnceScope log_once;
  if (file->tensors().empty()) {
    report.cannot_run = "there are no tensors, only metadata";
    DescribeParts(*file, report);
    return report;
  }
  // Opens the model as `run` would; what fails takes the file along.
  const auto model = model::Model::FromFile(std::move(file));
  if (model.has_value()) {
    DescribeModel(**model, report);
  } else {
    report.cannot_run = model.error().message;
    TC_ASSIGN_OR_RETURN(file, gguf::File::Open(path));
    DescribeParts(*file, report);
  }
  return report;
}

}  // namespace thermocline::cli

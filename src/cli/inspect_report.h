// What a model file holds and whether it runs, as data, text and JSON.
#ifndef THERMOCLINE_CLI_INSPECT_REPORT_H_
#define THERMOCLINE_CLI_INSPECT_REPORT_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "engine/session.h"
#include "gguf/gguf.h"
#include "model/config.h"
#include "text/vocab.h"

namespace thermocline::cli {

enum class TensorClass { kEmbedding, kAttention, kFfn, kNorm, kHead, kOther };
inline constexpr int kNumTensorClasses = 6;
const char* NameOf(TensorClass tensor_class);

// By the file format's naming: "blk.0.ffn_up.weight" is kFfn.
TensorClass ClassOf(std::string_view tensor_name);

struct TypeUse {
  int64_t num_tensors = 0;
  uint64_t num_bytes = 0;
};

// As the file says it, whatever the architecture; absent keys are empty.
struct ModelShape {
  std::optional<int64_t> context_length, num_layers, width, ffn_width,
      num_heads, num_kv_heads;
};

struct InspectReport {
  std::string path;
  uint32_t gguf_version;
  int num_shards;
  uint64_t num_file_bytes;
  std::optional<std::string> architecture, name;
  uint64_t num_params, num_tensors, num_weight_bytes;
  std::map<TensorClass, std::map<DType, TypeUse>> quantisation;
  bool tied_head;  // of a model that runs: the embedding is its head
  ModelShape shape;
  std::optional<model::Config> config;  // of architectures that we know

  std::optional<std::string> tokenizer_model;
  std::optional<text::Vocab> vocab;
  std::string tokenizer_problem;  // why there is no vocab, if a key says so

  // At the default context and KV types, when the model runs.
  std::optional<engine::MemoryNeed> memory;
  int64_t memory_context;
  std::string isa;
  std::string cannot_run;  // the reason; empty: it runs
};

struct SpecialToken {
  const char* name;  // "bos"
  std::optional<text::TokenId> id;
};
std::array<SpecialToken, 6> SpecialTokens(const text::Vocab& vocab);

// Errors are those of gguf::File::Open only: a readable file that does not run
// gives a report that says why.
Result<InspectReport> InspectModel(const std::string& path);

std::string FormatInspect(const InspectReport& report);

// The keys are described in docs/cli.md.
std::string FormatInspectJson(const InspectReport& report);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_INSPECT_REPORT_H_

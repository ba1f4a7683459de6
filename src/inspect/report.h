// What a model file holds and whether it runs, as data, text, JSON and a page.
#ifndef THERMOCLINE_INSPECT_REPORT_H_
#define THERMOCLINE_INSPECT_REPORT_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/session.h"
#include "gguf/gguf.h"
#include "inspect/tensor_role.h"
#include "model/config.h"
#include "neuron/record.h"
#include "text/vocab.h"

namespace thermocline::inspect {

// One tensor; or the experts of a layer that are tensors of their own, all of
// one type and shape.
struct TensorRow {
  std::string name;  // of such experts: "blk.3.ffn_up.*.weight"
  TensorRole role = TensorRole::kOther;
  std::optional<int> layer;
  DType dtype = DType::kF32;  // of records, that of their up rows
  Shape shape;                // of one
  int64_t num_tensors = 1;
  uint64_t num_bytes = 0;   // of all
  uint64_t num_params = 0;  // weights; 0 of what is found out about them
};

struct TensorUse {
  int64_t num_tensors = 0;
  uint64_t num_bytes = 0;
  uint64_t num_params = 0;
};

// Sums over rows with equal keys, in the order of the keys.
template <typename KeyFn>
auto SumBy(std::span<const TensorRow> rows, const KeyFn& key) {
  std::map<decltype(key(rows.front())), TensorUse> sums;
  for (const TensorRow& row : rows) {
    TensorUse& use = sums[key(row)];
    use.num_tensors += row.num_tensors;
    use.num_bytes += row.num_bytes;
    use.num_params += row.num_params;
  }
  return sums;
}

// What of each layer's tensors belongs to which class, without tensors of no
// layer.
std::map<int, std::map<TensorClass, uint64_t>> BytesByLayer(
    std::span<const TensorRow> rows);

// As the file says it, whatever the architecture; absent keys are empty.
struct ModelShape {
  std::optional<int64_t> context_length, num_layers, width, ffn_width,
      num_heads, num_kv_heads, key_width, value_width, num_experts,
      num_experts_used;
  // [L] of models whose layers differ; then there is no such number above.
  std::vector<int64_t> ffn_widths, heads_of_layers, kv_heads_of_layers;
};

// What a file brings for computing only some neurons.
struct Sparsity {
  // Hidden width of each layer's predictor, 0 for layers without; empty if
  // there is none at all.
  std::vector<int64_t> predictor_ranks;
  bool predictor_bias = false;
  std::optional<float> score_threshold;  // powerinfer.sparse_threshold
};

// What `thermocline prepare` wrote into a file; empty: not that.
struct PreparedFacts {
  int64_t version = 0;
  bool has_model = true;  // false: predictors of `train` alone
  std::vector<neuron::RecordLayout> records;  // [L], or none
  std::optional<int64_t> lookahead;           // of trained predictors
  int64_t num_training_free_layers = 0;       // with training-free predictors
  int64_t num_free_margins = 0;               // of them, with a second step
  std::vector<float> thresholds;              // [L], or none
  int64_t num_profile_layers = 0;
  std::optional<int64_t> profile_tokens;
  std::optional<double> density, locality, skew;
  int64_t num_test_samples = 0;
  std::optional<int64_t> order_group_size;
  bool is_in_order = false;  // neurons have numbers by that order
};

// A file beside a model that says which neurons lie on the GPU (PowerInfer) or
// move together (KAIROX).
struct SplitFile {
  std::string kind;  // "PowerInfer GPU index"
  int64_t num_layers = 0;
  int64_t num_neurons = 0;                 // over all layers
  std::optional<int64_t> num_gpu_neurons;  // of them, chosen for the GPU
  std::optional<int64_t> vram_bytes;       // budget that it was made for
  std::optional<int64_t> neurons_per_group;
};

struct MetadataRow {
  std::string key;
  std::string type;   // "u32", "array of string"
  std::string value;  // escaped; long ones are cut
};

// Bytes of keys and values that one position adds to the KV cache.
struct KvBytes {
  uint64_t f16 = 0;
  std::optional<uint64_t> q8_0;  // empty: heads do not divide into its blocks
};

struct InspectReport {
  std::string path;
  gguf::Container container = gguf::Container::kGguf;
  uint32_t gguf_version = 0;
  int num_shards = 1;
  uint64_t num_file_bytes = 0;
  std::optional<std::string> architecture, name;
  std::vector<MetadataRow> metadata;  // in the file's order
  std::vector<TensorRow> tensors;     // likewise
  TensorUse total;                    // over all tensors
  bool tied_head = false;  // of a model that runs: the embedding is its head
  ModelShape shape;
  Sparsity sparsity;
  std::optional<PreparedFacts> prepared;
  std::optional<SplitFile> split;
  std::optional<model::Config> config;  // of architectures that we know
  // When the keys that it follows from are there.
  std::optional<KvBytes> kv_bytes;

  std::optional<std::string> tokenizer_model;
  std::optional<text::Vocab> vocab;
  std::string tokenizer_problem;  // why there is no vocab, if a key says so

  // When the model runs; memory at the default context and KV types.
  std::optional<engine::MemoryPlan> memory;
  int64_t memory_context = 0;
  uint64_t weight_bytes_per_token = 0;  // when every neuron is computed
  std::string executor;                 // "dense", "fast"
  std::string isa;
  std::string cannot_run;  // the reason; empty: it runs
};

struct SpecialToken {
  const char* name;  // "bos"
  std::optional<text::TokenId> id;
};
std::array<SpecialToken, 6> SpecialTokens(const text::Vocab& vocab);

// Mean over all parameters; 0 without any.
double BitsPerWeight(const TensorUse& use);

// "1024" or "1024 to 2048", of the layers that have one; empty without.
std::string DescribeRanks(const Sparsity& sparsity);

// "0-5: 1024, 6: 0, 7-31: 2048", by layer.
std::string ListRanks(const Sparsity& sparsity);

// "Q4_0 gate, Q4_0 up, Q6_K down, 3456 bytes a neuron", layers that differ
// apart; empty without records.
std::string DescribeRecords(std::span<const neuron::RecordLayout> records);

// What is in the file beside records and trained predictors, as label and
// value.
struct PreparedFact {
  const char* label;  // "profile"
  std::string value;  // "1000 tokens, density 8.1 %"
};
std::vector<PreparedFact> DescribeFindings(const PreparedFacts& prepared);

// Gives rows of records the type and the number of weights that they hold.
void CountRecords(const model::Config& config, std::span<TensorRow> rows);

// From the keys and tensors of any file; config is null if it is no model.
std::optional<PreparedFacts> ReadPreparedFacts(const gguf::File& file,
                                               const model::Config* config,
                                               std::span<const TensorRow> rows);

// "neox, 128 elements per head, base 10000, scaling none".
std::string DescribeRope(const model::Config& config);
// A number of the shape, "64", or of its layers, "64 to 288, by layer"; empty:
// there is none.
std::string DescribeNumber(std::optional<int64_t> number,
                           const std::vector<int64_t>& of_layers);

// "fatrelu(0.01), gated".
std::string DescribeActivation(const model::FfnSpec& ffn);

// Errors are those of gguf::File::Open only: a readable file that does not run
// gives a report that says why.
Result<InspectReport> InspectModel(const std::string& path);

std::string FormatInspect(const InspectReport& report);

// The keys are described in docs/cli.md.
std::string FormatInspectJson(const InspectReport& report);

// One HTML page that needs nothing else: no scripts, no links, no images from
// outside. Everything from the file is escaped. The same bytes for the same
// file under the same name.
std::string FormatInspectHtml(const InspectReport& report);

}  // namespace thermocline::inspect

#endif  // THERMOCLINE_INSPECT_REPORT_H_

#include "import/tensor_plan.h"

#include <algorithm>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/quote.h"
#include "import/hf_falcon.h"
#include "import/hf_llama.h"
#include "import/hf_opt.h"
#include "import/tensor_layout.h"
#include "model/tensor_roles.h"

namespace thermocline::importer {
namespace {

constexpr char kHead[] = "lm_head.weight";

Layout LayoutOf(const HfConfig& config) {
  switch (config.family) {
    case HfFamily::kFalcon:
      return FalconLayout(config);
    case HfFamily::kOpt:
      return OptLayout(config);
    case HfFamily::kLlama:
      break;
  }
  return LlamaLayout(config);
}

std::string Print(std::span<const uint64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

// `name` with its "{}" replaced by a number.
std::string Numbered(std::string name, size_t number) {
  const size_t at = name.find("{}");
  return at == std::string::npos ? name
                                 : name.replace(at, 2, std::to_string(number));
}

class Planner {
 public:
  Planner(const HfConfig& config, const Checkpoint& checkpoint,
          DType matrix_dtype)
      : config_(config),
        checkpoint_(checkpoint),
        matrix_dtype_(matrix_dtype),
        layout_(LayoutOf(config)),
        model_(ModelConfigOf(config)) {}

  Result<std::vector<PlannedTensor>> Plan();

 private:
  void FindPrefix();
  void FindEmbedding();
  Result<uint64_t> VocabSize() const;
  Result<const SafeTensor*> FindSource(
      const std::string& name, const std::vector<uint64_t>& shape) const;
  Status Add(const std::string& hf_prefix, const std::string& gguf_prefix,
             const Part& part);
  Status AddAll(const std::string& hf_prefix, const std::string& gguf_prefix,
                const std::vector<Part>& parts);
  Status AddHead();
  Status CheckNothingIsLeft() const;
  DType StoredAs(const model::TensorRole& role,
                 const std::vector<uint64_t>& shape) const;
  size_t ExtentOf(model::Extent extent) const {
    return model::ExtentOf(extent, model_, model_.layers.front());
  }
  std::vector<uint64_t> ShapeOf(const model::TensorRole& role) const;

  const HfConfig& config_;
  const Checkpoint& checkpoint_;
  DType matrix_dtype_;
  Layout layout_;
  model::Config model_;
  std::string prefix_;
  std::string embedding_;  // its name in the checkpoint
  std::vector<PlannedTensor> plan_;
  std::set<std::string> taken_;
};

void Planner::FindPrefix() {
  const auto found =
      std::ranges::find_if(layout_.prefixes, [&](const std::string& prefix) {
        return checkpoint_.Find(prefix + layout_.embedding) != nullptr;
      });
  // The usual one, so that the message names the usual tensor.
  prefix_ = found == layout_.prefixes.end() ? layout_.prefixes.front() : *found;
}

// Where head and embedding are one, a checkpoint may have it under either name.
void Planner::FindEmbedding() {
  embedding_ = prefix_ + layout_.embedding;
  if (checkpoint_.Find(embedding_) == nullptr &&
      checkpoint_.Find(kHead) != nullptr && config_.tied_head.value_or(true)) {
    embedding_ = kHead;
  }
}

Result<uint64_t> Planner::VocabSize() const {
  const std::string& name = embedding_;
  const SafeTensor* embedding = checkpoint_.Find(name);
  if (embedding == nullptr) {
    return Fail(ErrorCode::kCorrupt, "the checkpoint has no tensor \"{}\"",
                name);
  }
  const uint64_t by_tensor =
      embedding->shape.empty() ? 0 : embedding->shape.front();
  const uint64_t by_config = config_.vocab_size.value_or(0);
  if (by_tensor == 0 || (by_config != 0 && by_config != by_tensor)) {
    return Fail(ErrorCode::kCorrupt,
                "tensor \"{}\" has the shape {}, but config.json says "
                "\"vocab_size\": {}",
                name, Print(embedding->shape), by_config);
  }
  if (!std::in_range<int32_t>(by_tensor)) {
    return Fail(ErrorCode::kUnsupported,
                "tensor \"{}\" has {} rows: too many for a vocabulary", name,
                by_tensor);
  }
  return by_tensor;
}

// Routers and positions are small, and much depends on them.
DType Planner::StoredAs(const model::TensorRole& role,
                        const std::vector<uint64_t>& shape) const {
  if (role.form == model::TensorForm::kVector ||
      role.use == model::TensorUse::kExpertRouter ||
      role.use == model::TensorUse::kPositionEmbedding) {
    return DType::kF32;
  }
  const bool divides = shape.back() % InfoOf(matrix_dtype_).block_elems == 0;
  return divides ? matrix_dtype_ : DType::kF16;
}

// Of a source, outermost extent first.
std::vector<uint64_t> Planner::ShapeOf(const model::TensorRole& role) const {
  const size_t columns = ExtentOf(role.columns);
  if (role.form == model::TensorForm::kVector) return {columns};
  return {ExtentOf(role.rows), columns};
}

Result<const SafeTensor*> Planner::FindSource(
    const std::string& name, const std::vector<uint64_t>& shape) const {
  const SafeTensor* source = checkpoint_.Find(name);
  if (source == nullptr) {
    return Fail(ErrorCode::kCorrupt, "the checkpoint has no tensor \"{}\"",
                name);
  }
  if (source->shape != shape) {
    return Fail(ErrorCode::kCorrupt,
                "tensor \"{}\" has the shape {}; config.json says {}", name,
                Print(source->shape), Print(shape));
  }
  if (!source->dtype) {
    return Fail(ErrorCode::kUnsupported,
                "tensor \"{}\" is {}; F32, F16 and BF16 can be converted", name,
                Quote(source->dtype_name));
  }
  return source;
}

Status Planner::Add(const std::string& hf_prefix,
                    const std::string& gguf_prefix, const Part& part) {
  const model::TensorRole* role = model::FindRole(part.gguf_name);
  TC_CHECK(role != nullptr);
  const std::string name = hf_prefix + part.hf_name;
  const model::Need need = role->need(model_, model_.layers.front());
  const bool is_optional = need == model::Need::kOptional && !part.is_required;
  if (need == model::Need::kForbidden ||
      (is_optional && checkpoint_.Find(name) == nullptr)) {
    return {};
  }
  PlannedTensor planned;
  planned.name = gguf_prefix + part.gguf_name;
  std::vector<uint64_t> shape = ShapeOf(*role);
  const size_t num_experts = role->form == model::TensorForm::kStack
                                 ? ExtentOf(model::Extent::kExperts)
                                 : 0;
  for (size_t i = 0; i < std::max<size_t>(num_experts, 1); ++i) {
    const std::string source_name = Numbered(name, i);
    TC_ASSIGN_OR_RETURN(const SafeTensor* source,
                        FindSource(source_name, shape));
    planned.sources.push_back(source);
    taken_.insert(source_name);
  }
  planned.dtype = StoredAs(*role, shape);
  planned.rows = part.rows;
  planned.adds_one = part.adds_one;
  // Innermost first, which is how the file counts.
  std::ranges::reverse(shape);
  if (!part.rows.empty()) shape.back() = part.rows.size();
  if (num_experts > 0) shape.push_back(num_experts);
  planned.shape.rank = static_cast<int>(shape.size());
  std::ranges::copy(shape, planned.shape.ne.begin());
  plan_.push_back(std::move(planned));
  return {};
}

Status Planner::AddAll(const std::string& hf_prefix,
                       const std::string& gguf_prefix,
                       const std::vector<Part>& parts) {
  for (const Part& part : parts) {
    TC_RETURN_IF_ERROR(Add(hf_prefix, gguf_prefix, part));
  }
  return {};
}

Status Planner::AddHead() {
  const SafeTensor* head = checkpoint_.Find(kHead);
  bool is_tied = config_.tied_head.value_or(head == nullptr);
  if (!config_.tied_head && head != nullptr) {
    const SafeTensor& embedding = *plan_.front().sources.front();
    is_tied = head->dtype_name == embedding.dtype_name &&
              std::ranges::equal(head->bytes, embedding.bytes);
  }
  if (is_tied) {
    taken_.insert(kHead);  // repeats the embedding, if it is there
    return {};
  }
  return Add(
      "", "",
      {.hf_name = kHead, .gguf_name = "output.weight", .is_required = true});
}

// A tensor that nobody takes would be missing from the result.
Status Planner::CheckNothingIsLeft() const {
  for (const auto& [name, tensor] : checkpoint_.tensors()) {
    if (taken_.contains(name)) continue;
    if (name.ends_with("rotary_emb.inv_freq")) continue;  // from the config
    return Fail(ErrorCode::kUnsupported,
                "the architecture that config.json describes has no place for "
                "tensor {}",
                Quote(name));
  }
  return {};
}

Result<std::vector<PlannedTensor>> Planner::Plan() {
  FindPrefix();
  FindEmbedding();
  TC_ASSIGN_OR_RETURN(const uint64_t vocab_size, VocabSize());
  model_.vocab_size = vocab_size;
  TC_RETURN_IF_ERROR(
      Add("", "", {.hf_name = embedding_, .gguf_name = "token_embd.weight"}));
  TC_RETURN_IF_ERROR(AddAll(prefix_, "", layout_.inputs));
  for (size_t i = 0; i < config_.num_layers; ++i) {
    TC_RETURN_IF_ERROR(AddAll(prefix_ + Numbered(layout_.layer_prefix, i),
                              fmt::format("blk.{}.", i), layout_.layer));
  }
  TC_RETURN_IF_ERROR(AddAll(prefix_, "", layout_.outputs));
  TC_RETURN_IF_ERROR(AddHead());
  TC_RETURN_IF_ERROR(CheckNothingIsLeft());
  return std::move(plan_);
}

}  // namespace

Result<std::vector<PlannedTensor>> PlanTensors(const HfConfig& config,
                                               const Checkpoint& checkpoint,
                                               DType matrix_dtype) {
  return Planner(config, checkpoint, matrix_dtype).Plan();
}

}  // namespace thermocline::importer

#include "model/model.h"

#include <cstring>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "model/bundle.h"
#include "model/placed_file.h"
#include "model/predictor_weights.h"
#include "model/prepared_config.h"
#include "model/prepared_names.h"
#include "model/prepared_weights.h"
#include "model/tensor_binder.h"
#include "model/vocab_metadata.h"
#include "model/weights.h"

namespace thermocline::model {
namespace {

using TokenizerPtr = std::unique_ptr<const text::Tokenizer>;

Result<TokenizerPtr> CreateTokenizer(const gguf::File& file) {
  TC_ASSIGN_OR_RETURN(auto vocab, ReadVocab(file));
  if (!vocab) return nullptr;
  auto tokenizer = text::Tokenizer::Create(std::move(*vocab));
  if (!tokenizer) return Annotate(file.path(), tokenizer.error());
  return tokenizer;
}

// Null when the file has no vocabulary, or, with a warning, one of a kind that
// we lack: token ids run all the same.
Result<TokenizerPtr> ReadTokenizer(const gguf::File& file) {
  auto tokenizer = CreateTokenizer(file);
  if (!tokenizer && tokenizer.error().code == ErrorCode::kUnsupported) {
    LogWarning("{}: only token ids can be used", tokenizer.error().message);
    return nullptr;
  }
  return tokenizer;
}

Status CheckVocabFits(const gguf::File& file, const Config& config,
                      const text::Tokenizer& tokenizer) {
  if (std::cmp_greater(tokenizer.num_tokens(), config.vocab_size)) {
    return Fail(ErrorCode::kCorrupt,
                "{}: the vocabulary has {} tokens, but tensor "
                "\"token_embd.weight\" has {} rows",
                file.path(), tokenizer.num_tokens(), config.vocab_size);
  }
  if (std::cmp_less(tokenizer.num_tokens(), config.vocab_size)) {
    LogWarning("{}: the vocabulary has {} tokens for {} rows of embeddings",
               file.path(), tokenizer.num_tokens(), config.vocab_size);
  }
  return {};
}

Result<Split> OpenSplit(const std::string& path, const std::string& model_path,
                        const Config& config, const Weights& weights) {
  if (!weights.layers.empty() && weights.layers.front().source_neurons) {
    return Fail(ErrorCode::kInvalidArgument,
                "{}: names neurons by the numbers that they have in the model "
                "that {} was prepared from; this file has them in the order "
                "in which they fire together",
                path, model_path);
  }
  TC_ASSIGN_OR_RETURN(const auto file, gguf::File::Open(path));
  TC_ASSIGN_OR_RETURN(Split split, ReadSplit(*file, config));
  if (split.hot) {
    LogInfo("{}: its hot neurons are for a GPU, and of use to plans alone",
            path);
  }
  return split;
}

bool WantsBundles(const Config& config, const OpenOptions& options) {
  return options.bundle_at_load && config.records.empty();
}

// Which tensors stay in the file, as OpenOptions::leaves says.
Result<std::vector<std::string>> ListLeftOut(const gguf::File& file,
                                             const Config& config,
                                             const OpenOptions& options) {
  std::vector<std::string> names;
  if (!options.leaves) return names;
  TC_RETURN_IF_ERROR(BindWeights(file, config));
  TC_ASSIGN_OR_RETURN(names, options.leaves(file, config));
  if (!names.empty() && (options.check_tensors || options.bundle_at_load)) {
    return Fail(ErrorCode::kInvalidArgument,
                "{}: a part of its weights stays in the file, so that they "
                "cannot all be {} as it is opened",
                file.path(),
                options.check_tensors ? "scanned" : "laid out as records");
  }
  return names;
}

// As gguf::File::num_held_bytes() will say of what is not left out.
uint64_t BytesBut(const gguf::File& file,
                  const std::vector<std::string>& left_out) {
  uint64_t num_bytes = 0;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    num_bytes += tensor.num_bytes;
  }
  for (const std::string& name : left_out) {
    num_bytes -= file.FindTensor(name)->num_bytes;
  }
  return num_bytes;
}

// What can be refused is, before weights are read for many seconds.
Status AdmitWeights(const gguf::File& file, const Config& config,
                    const gguf::WeightResidency& hold,
                    const OpenOptions& options) {
  TC_ASSIGN_OR_RETURN(const Weights weights, BindWeights(file, config));
  uint64_t num_bytes = hold.any() ? file.num_file_bytes() : 0;
  if (!hold.left_out.empty()) num_bytes = BytesBut(file, hold.left_out);
  if (WantsBundles(config, options)) {
    TC_ASSIGN_OR_RETURN(const auto layouts,
                        PlanLayouts(file.path(), config, weights));
    const uint64_t record_bytes = NumRecordBytes(config, layouts);
    TC_RETURN_IF_ERROR(CheckRecordsFit(file.path(), record_bytes));
    num_bytes += record_bytes;
  }
  return options.admit && num_bytes > 0 ? options.admit(config, num_bytes)
                                        : Status();
}

Result<std::vector<os::AlignedBuffer>> BundleAtLoad(const std::string& path,
                                                    const OpenOptions& options,
                                                    Config& config,
                                                    Weights& weights) {
  TC_ASSIGN_OR_RETURN(Bundles bundles,
                      BundleFfns(path, options.num_threads,
                                 options.hold_progress, config, weights));
  const double error = bundles.cost.RelativeError();
  if (error > 0) {
    LogInfo(
        "{}: bundled at load: the down columns were encoded again, with a "
        "relative error of {:.2g} (RMS); preparing from the F16 model loses "
        "less",
        path, error);
  }
  return std::move(bundles.layers);
}

tl::unexpected<Error> OutOfMemory(const std::string& path) {
  return Fail(ErrorCode::kResourceExhausted,
              "{}: not enough memory for its vocabulary", path);
}

// What `parts` says in the place of what the model's own file does.
Status ReadPartsConfig(const gguf::File& parts, Config& config) {
  Config read = config;
  read.predictor = {};
  read.has_training_free = false;
  read.thresholds.clear();
  read.records.clear();
  TC_RETURN_IF_ERROR(ReadPrepared(parts, read));
  TC_RETURN_IF_ERROR(ReadActivationKeys(parts, read));
  read.records = config.records;  // parts come without weights
  config = std::move(read);
  return {};
}

// Files of parts alone do not say how neurons are numbered: what is made for
// which model is known by their fingerprint.
Status CheckNumbers(const gguf::File& parts, size_t layer_idx,
                    const TensorView& numbers, const TensorView& own) {
  if (!numbers) return {};
  if (own && std::memcmp(numbers.data, own.data, own.num_bytes()) == 0) {
    return {};
  }
  return Fail(ErrorCode::kInvalidArgument,
              "{}: layer {}: the neurons have other numbers than the model's: "
              "the file was prepared with its records in the order in which "
              "neurons fire together, from this model or another one",
              parts.path(), layer_idx);
}

Status BindParts(const gguf::File& parts, const Config& config,
                 std::vector<LayerWeights>& layers) {
  TensorBinder binder(parts);
  for (size_t i = 0; i < layers.size(); ++i) {
    LayerWeights& layer = layers[i];
    layer.predictor = {};
    layer.training_free = {};
    layer.self_test = {};
    layer.profile_counts = {};
    layer.order = {};
    const TensorView own_numbers = std::exchange(layer.source_neurons, {});
    TC_RETURN_IF_ERROR(BindPrepared(binder, config, i, layer));
    const TensorView numbers = std::exchange(layer.source_neurons, own_numbers);
    TC_RETURN_IF_ERROR(CheckNumbers(parts, i, numbers, own_numbers));
    if (!config.predictor.is_there()) continue;
    TC_ASSIGN_OR_RETURN(layer.predictor, BindPredictor(binder, config, i));
  }
  return CheckSampleCounts(parts, layers);
}

// Those that are most of a model's bytes, and that are there.
std::vector<TensorView*> MatricesOf(Weights& weights) {
  std::vector<TensorView*> matrices;
  const auto add = [&](auto&... views) {
    for (TensorView* view : {&views...}) {
      if (*view) matrices.push_back(view);
    }
  };
  const auto add_ffn = [&](FfnMatrices& ffn) {
    add(ffn.gate, ffn.up, ffn.down, ffn.down_t);
  };
  add(weights.head);
  for (LayerWeights& layer : weights.layers) {
    AttentionWeights& attention = layer.attention;
    add(attention.q, attention.k, attention.v, attention.out);
    add_ffn(layer.ffn);
    for (FfnMatrices& expert : layer.ffn.experts) add_ffn(expert);
  }
  return matrices;
}

}  // namespace

Result<std::shared_ptr<const Model>> Model::Open(
    const std::string& path, const OpenOptions& options) try {
  TC_ASSIGN_OR_RETURN(auto file, gguf::File::Open(path));
  TC_ASSIGN_OR_RETURN(Config config, ReadConfig(*file, options.overrides));
  gguf::WeightResidency hold = options.hold;
  TC_ASSIGN_OR_RETURN(hold.left_out, ListLeftOut(*file, config, options));
  if (!hold.left_out.empty()) hold.read = true;
  if (hold.any() || options.bundle_at_load) {
    TC_RETURN_IF_ERROR(AdmitWeights(*file, config, hold, options));
  }
  if (hold.any()) {
    TC_RETURN_IF_ERROR(file->Hold(hold, options.hold_progress));
  }
  return Create(std::move(file), std::move(config), options);
} catch (const std::bad_alloc&) {
  return OutOfMemory(path);
}

Result<std::shared_ptr<const Model>> Model::FromFile(
    std::unique_ptr<const gguf::File> file, const OpenOptions& options) try {
  TC_ASSIGN_OR_RETURN(Config config, ReadConfig(*file, options.overrides));
  return Create(std::move(file), std::move(config), options);
} catch (const std::bad_alloc&) {
  return OutOfMemory(file->path());
}

Result<std::shared_ptr<const Model>> Model::Create(
    std::unique_ptr<const gguf::File>&& file, Config config,
    const OpenOptions& options) {
  std::shared_ptr<Model> model(new Model());
  model->config_ = std::move(config);
  TC_ASSIGN_OR_RETURN(model->weights_, BindWeights(*file, model->config_));
  TC_ASSIGN_OR_RETURN(model->tokenizer_, ReadTokenizer(*file));
  if (model->tokenizer_) {
    TC_RETURN_IF_ERROR(
        CheckVocabFits(*file, model->config_, *model->tokenizer_));
  }
  if (options.split_path) {
    TC_ASSIGN_OR_RETURN(model->split_,
                        OpenSplit(*options.split_path, file->path(),
                                  model->config_, model->weights_));
  }
  if (options.check_tensors) {
    TC_RETURN_IF_ERROR(
        CheckTensors(*file, model->weights_.layers, options.progress));
  }
  if (WantsBundles(model->config_, options)) {
    TC_ASSIGN_OR_RETURN(
        auto bundles,
        BundleAtLoad(file->path(), options, model->config_, model->weights_));
    model->bundles_ = std::make_shared<const std::vector<os::AlignedBuffer>>(
        std::move(bundles));
  }
  // Nothing throws once the file has moved into the model: callers say its path
  // if there is no memory.
  model->file_ = std::move(file);
  return std::shared_ptr<const Model>(std::move(model));
}

uint64_t Model::num_bundle_bytes() const {
  uint64_t num_bytes = 0;
  if (!bundles_) return num_bytes;
  for (const os::AlignedBuffer& bundle : *bundles_) num_bytes += bundle.size();
  return num_bytes;
}

std::optional<gguf::FileSpan> Model::RecordSpan(size_t layer_idx) const {
  const gguf::TensorInfo* info =
      file_->FindTensor(prepared::OfLayer(layer_idx, prepared::kRecords));
  if (info == nullptr) return std::nullopt;
  return info->span();
}

Result<std::shared_ptr<const Model>> Model::PlacedAt(
    const std::function<const std::byte*(const gguf::TensorInfo& tensor)>&
        address_of) const {
  const PlacedFile placed(*file_, address_of);
  TC_ASSIGN_OR_RETURN(Weights weights, BindWeights(placed, config_));
  std::shared_ptr<Model> model(new Model(*this));
  for (size_t i = 0; i < weights.layers.size(); ++i) {
    model->weights_.layers[i].attention = weights.layers[i].attention;
    model->weights_.layers[i].ffn = std::move(weights.layers[i].ffn);
  }
  return std::shared_ptr<const Model>(std::move(model));
}

std::shared_ptr<const Model> Model::WithThresholds(
    std::vector<float> thresholds) const {
  TC_CHECK(std::cmp_equal(thresholds.size(), config_.num_layers));
  std::shared_ptr<Model> model(new Model(*this));
  model->config_.thresholds = std::move(thresholds);
  return model;
}

Result<std::shared_ptr<const Model>> Model::ShapeOf(DType dtype) const {
  std::shared_ptr<Model> model(new Model(*this));
  for (TensorView* matrix : MatricesOf(model->weights_)) {
    if (matrix->shape.ne[0] % InfoOf(dtype).block_elems != 0) {
      return Fail(ErrorCode::kUnsupported,
                  "{}: rows of {} elements are no whole blocks of {}",
                  file_->path(), matrix->shape.ne[0], NameOf(dtype));
    }
    *matrix = {.dtype = dtype, .shape = matrix->shape};
  }
  return std::shared_ptr<const Model>(std::move(model));
}

Result<std::shared_ptr<const Model>> Model::WithParts(
    std::shared_ptr<const gguf::File> parts) const {
  std::shared_ptr<Model> model(new Model(*this));
  TC_RETURN_IF_ERROR(ReadPartsConfig(*parts, model->config_));
  TC_RETURN_IF_ERROR(BindParts(*parts, model->config_, model->weights_.layers));
  model->parts_ = std::move(parts);
  return std::shared_ptr<const Model>(std::move(model));
}

}  // namespace thermocline::model

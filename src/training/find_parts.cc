#include "training/find_parts.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/units.h"
#include "kernels/kernels.h"
#include "model/profile_file.h"
#include "os/thread_pool.h"
#include "training/blas.h"
#include "training/candidates.h"
#include "training/fit.h"
#include "training/free_fit.h"
#include "training/layer_file.h"
#include "training/sample_store.h"
#include "training/scan.h"
#include "training/threshold_search.h"

namespace thermocline::training {
namespace {

constexpr char kScanStage[] = "scan";        // self-test and thresholds
constexpr char kProfileStage[] = "profile";  // written before it
// Of the thresholds' search: held-out chunks that each density is tried on.
constexpr size_t kMaxTestChunks = 16;
// More than this share firing leaves nothing to skip.
constexpr double kMaxDensity = 0.9;
constexpr size_t kMinSamples = 1024;
// Less than a full training orders lookaheads.
constexpr size_t kAheadShare = 4;

bool IsReluFamily(Activation activation) {
  return activation == Activation::kRelu ||
         activation == Activation::kFatRelu || activation == Activation::kDRelu;
}

bool WantsThresholds(const FindOptions& options) {
  return options.density.has_value() || options.max_ppl_cost.has_value();
}

// What opens the neurons of a layer.
TensorView OpeningMatrix(const model::FfnWeights& ffn) {
  return ffn.gate ? ffn.gate : ffn.up;
}
TensorView OpeningBias(const model::FfnWeights& ffn) {
  return ffn.gate ? ffn.gate_bias : ffn.up_bias;
}

uint64_t FfnBytes(const model::FfnWeights& ffn) {
  const TensorView& down = ffn.down ? ffn.down : ffn.down_t;
  return (ffn.gate ? ffn.gate.num_bytes() : 0) + ffn.up.num_bytes() +
         down.num_bytes();
}

// Of one layer's fitting, beside its samples: the gate as floats and what is
// made of it, the predictor with its gradients and moments, scores.
uint64_t FitBytes(const model::Config& config, size_t max_rank) {
  const auto width = static_cast<uint64_t>(config.width);
  const auto num_neurons = static_cast<uint64_t>(config.ffn_width);
  return sizeof(float) * (5 * num_neurons * width + 5 * width * width +
                          7 * max_rank * (width + num_neurons) +
                          3 * 512 * (width + num_neurons)) +
         256 * kMiB;
}

uint64_t HashOf(std::span<const text::TokenId> tokens) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const text::TokenId token : tokens) {
    for (int shift = 0; shift < 32; shift += 8) {
      hash ^= static_cast<uint64_t>(token) >> shift & 255;
      hash *= 0x100000001b3u;
    }
  }
  return hash;
}

Status CheckOptions(const model::Model& model, const FindOptions& options) {
  const model::Config& config = model.config();
  if (options.lookahead < 0 || options.lookahead > 1) {
    return Fail(ErrorCode::kInvalidArgument,
                "predictors that look {} layers ahead; 0 and 1 are possible",
                options.lookahead);
  }
  if (options.density.has_value() && options.max_ppl_cost.has_value()) {
    return Fail(ErrorCode::kInvalidArgument,
                "thresholds for a density and for a perplexity cost exclude "
                "each other: give one");
  }
  if (WantsThresholds(options) && IsReluFamily(config.ffn.activation)) {
    return Fail(ErrorCode::kInvalidArgument,
                "{}: its activation is {}, whose zeros need no thresholds; "
                "they are for silu and gelu",
                model.file().path(), NameOf(config.ffn.activation));
  }
  if (WantsThresholds(options) && config.ffn.num_experts > 0) {
    return Fail(ErrorCode::kUnsupported,
                "{}: thresholds for mixtures of experts are not calibrated",
                model.file().path());
  }
  return {};
}

class Finder {
 public:
  Finder(std::shared_ptr<const model::Model> model, const Corpus& corpus,
         const FindOptions& options, const WorkFolder& work,
         os::ThreadPool* pool)
      : model_(std::move(model)),
        config_(model_->config()),
        corpus_(corpus),
        options_(options),
        work_(work),
        gemm_(pool),
        layers_(static_cast<size_t>(config_.num_layers)) {
    options_.session.ffn = engine::FfnMode::kDense;
    // Mixtures: a predictor for all experts' neurons would be mostly of those
    // that a token does not use.
    is_fitted_ = (options.predictors || options.free_predictors) &&
                 IsReluFamily(config_.ffn.activation) &&
                 config_.ffn.num_experts == 0;
  }

  Result<Findings> Find();

 private:
  Status Scan();
  Status ReadScan();
  Status ChooseThresholds(const GateSizes& gates,
                          convert::PreparedParts& parts);
  Status CheckDensity(const neuron::Profile& profile) const;
  Status PlanGroups();
  // Whether every layer of it has been fitted.
  bool IsKept(const LayerRange& group) const;
  void MakeStore(const LayerRange& group);
  Status FitGroup(const LayerRange& group);
  Result<LayerFile> FitLayer(const SampleStore& store, size_t layer_idx);
  FitData DataOf(const SampleStore& store, size_t layer_idx,
                 size_t input_layer) const;
  Status AddAhead(const SampleStore& store, size_t layer_idx,
                  const FitOptions& fit, LayerFindings& findings);
  std::string LayerStage(size_t layer_idx) const {
    return fmt::format("layer-{}", layer_idx);
  }
  size_t NumBefore() const {
    return options_.reports_ahead ? kMaxAhead
                                  : static_cast<size_t>(options_.lookahead);
  }
  void Assemble();

  std::shared_ptr<const model::Model> model_;
  const model::Config& config_;
  const Corpus& corpus_;
  FindOptions options_;
  const WorkFolder& work_;
  Gemm gemm_;
  bool is_fitted_ = false;
  size_t num_samples_ = 0;
  std::vector<LayerRange> groups_;
  std::optional<SampleStore> store_;  // of one group
  std::vector<std::optional<LayerFile>> layers_;
  Findings out_;
};

Status Finder::CheckDensity(const neuron::Profile& profile) const {
  if (WantsThresholds(options_) || profile.density() <= kMaxDensity) return {};
  if (IsReluFamily(config_.ffn.activation)) {
    return Fail(ErrorCode::kUnsupported,
                "{}: {:.1f} % of the neurons fire, so there is nothing to "
                "skip: its {} leaves hardly anything at 0",
                model_->file().path(), 100 * profile.density(),
                NameOf(config_.ffn.activation));
  }
  return Fail(ErrorCode::kUnsupported,
              "{}: {:.1f} % of the neurons fire, because {} is nowhere 0; "
              "--density or --ppl-cost calibrates thresholds, below which a "
              "gate counts as shut",
              model_->file().path(), 100 * profile.density(),
              NameOf(config_.ffn.activation));
}

Status Finder::ChooseThresholds(const GateSizes& gates,
                                convert::PreparedParts& parts) {
  if (options_.density.has_value()) {
    parts.thresholds = gates.ThresholdsFor(*options_.density);
    return {};
  }
  if (!options_.max_ppl_cost.has_value()) return {};
  const auto perplexity_at =
      [&](const std::vector<float>& thresholds) -> Result<double> {
    return MeasurePerplexity(model_, corpus_, kMaxTestChunks, options_.session,
                             thresholds);
  };
  TC_ASSIGN_OR_RETURN(const double dense, perplexity_at({}));
  TC_ASSIGN_OR_RETURN(
      const DensityChoice choice,
      FindDensity(*options_.max_ppl_cost, dense, [&](double density) {
        return perplexity_at(gates.ThresholdsFor(density));
      }));
  parts.thresholds = gates.ThresholdsFor(choice.density);
  const std::pair<const char*, double> kept[] = {
      {"thermocline.work.density", choice.density},
      {"thermocline.work.perplexity", choice.perplexity},
      {"thermocline.work.dense_perplexity", choice.dense_perplexity}};
  for (const auto& [key, value] : kept) {
    parts.keys.push_back(
        {.key = key, .type = gguf::ValueType::kF64, .value = value});
  }
  return {};
}

// One run over the corpus for what concerns all layers, into the work folder.
Status Finder::Scan() {
  if (work_.Has(kScanStage)) return {};
  const Stopwatch watch;
  training::Scan scan(config_, corpus_, WantsThresholds(options_));
  // The first group's samples come along.
  if (is_fitted_ && !IsKept(groups_.front())) MakeStore(groups_.front());
  TC_RETURN_IF_ERROR(RunCorpus(
      model_, corpus_, options_.session, "profiling", options_.progress,
      [&](size_t chunk_idx, const engine::FfnObservation& seen) {
        scan.Add(chunk_idx, seen);
        if (store_) store_->Add(chunk_idx, seen);
      },
      // Whether it is worth going on shows at once.
      [&](size_t chunk_idx) -> Status {
        if (chunk_idx > 0) return {};
        return CheckDensity(scan.profile());
      }));
  TC_RETURN_IF_ERROR(CheckDensity(scan.profile()));
  const model::ProfileFile profile = {
      .model = model::FingerprintOf(*model_),
      .corpus = options_.corpus_name,
      .context = static_cast<int64_t>(corpus_.chunk_tokens()),
      .profile = scan.profile()};
  out_.stages.push_back(
      {store_ ? "profile and samples" : "profile", watch.Seconds()});
  const Stopwatch threshold_watch;
  convert::PreparedParts parts;
  parts.self_test = scan.self_test();
  TC_RETURN_IF_ERROR(ChooseThresholds(scan.gates(), parts));
  if (WantsThresholds(options_)) {
    out_.stages.push_back({"thresholds", threshold_watch.Seconds()});
  }
  TC_RETURN_IF_ERROR(model::WriteProfile(profile, work_.FileOf(kProfileStage)));
  return convert::WriteParts(parts, config_, work_.FileOf(kScanStage));
}

// What Scan left, now or in an earlier run.
Status Finder::ReadScan() {
  const auto profile = model::ReadProfile(work_.FileOf(kProfileStage));
  if (!profile) return work_.Unreadable(profile.error());
  if (profile->profile.layers.size() != layers_.size()) {
    return work_.Unreadable(
        {ErrorCode::kCorrupt, "the profile has another number of layers"});
  }
  out_.profile = profile->profile;
  const auto file = gguf::File::Open(work_.FileOf(kScanStage));
  if (!file) return work_.Unreadable(file.error());
  auto parts = convert::ReadParts(**file, config_);
  if (!parts) return work_.Unreadable(parts.error());
  out_.parts = *std::move(parts);
  out_.threshold_density = options_.density;
  const std::pair<const char*, std::optional<double>*> kept[] = {
      {"thermocline.work.density", &out_.threshold_density},
      {"thermocline.work.perplexity", &out_.threshold_perplexity},
      {"thermocline.work.dense_perplexity", &out_.dense_perplexity}};
  for (const auto& [key, value] : kept) {
    const auto stored = (*file)->Float(key);
    if (!stored) return work_.Unreadable(stored.error());
    if (stored->has_value()) *value = *stored;
  }
  out_.parts.keys = model::ProfileKeys(*profile);
  for (const neuron::LayerProfile& layer : out_.profile.layers) {
    out_.parts.profile_counts.push_back(layer.counts);
  }
  return {};
}

// How many samples and layers are in memory at once.
Status Finder::PlanGroups() {
  const uint64_t allowed = options_.max_memory_bytes > 0
                               ? options_.max_memory_bytes
                               : model_->file().num_file_bytes() / 4 + kGiB;
  engine::SessionOptions session = options_.session;
  session.context = static_cast<int64_t>(corpus_.chunk_tokens());
  TC_ASSIGN_OR_RETURN(const engine::MemoryNeed need,
                      engine::PlanMemory(config_, session));
  const auto width = static_cast<size_t>(config_.width);
  const auto num_neurons = static_cast<size_t>(config_.ffn_width);
  size_t max_rank = 0;
  for (const model::LayerWeights& layer : model_->weights().layers) {
    max_rank = std::max(max_rank, MaxRank(width, num_neurons, DType::kQ8_0,
                                          FfnBytes(layer.ffn) / 10));
  }
  // The session is gone when layers are fitted.
  const uint64_t used = std::max(need.total(), FitBytes(config_, max_rank)) +
                        corpus_.num_tokens() * sizeof(text::TokenId);
  const uint64_t left = allowed > used ? allowed - used : 0;
  const uint64_t sample_bytes = SampleBytes(width, num_neurons);
  const size_t num_least =
      std::min(NumBefore() + 1, static_cast<size_t>(config_.num_layers));
  const size_t wanted = std::min(options_.max_samples, corpus_.num_tokens());
  num_samples_ =
      std::min(wanted, static_cast<size_t>(left / num_least / sample_bytes));
  if (num_samples_ < std::min(wanted, kMinSamples)) {
    return Fail(ErrorCode::kResourceExhausted,
                "{}: predictors need samples of {} layers in memory, {} each; "
                "{} are allowed, and the rest takes {}",
                model_->file().path(), num_least,
                FormatBytes(kMinSamples * sample_bytes), FormatBytes(allowed),
                FormatBytes(used));
  }
  const size_t max_layers =
      std::max<size_t>(num_least, left / (num_samples_ * sample_bytes));
  groups_ = GroupLayers(layers_.size(), std::max(max_layers, NumBefore() + 1),
                        NumBefore());
  return {};
}

FitData Finder::DataOf(const SampleStore& store, size_t layer_idx,
                       size_t input_layer) const {
  const model::FfnWeights& ffn = model_->weights().layers[layer_idx].ffn;
  FitData data = {.train = store.train(input_layer, layer_idx),
                  .held_out = store.held_out(input_layer, layer_idx),
                  .ffn_bytes = FfnBytes(ffn),
                  .skew = out_.profile.layers[layer_idx].skew()};
  const float scale = UnitScale(data.train);
  data.train.input_scale = data.held_out.input_scale = scale;
  data.gate = ReadGate(gemm_, OpeningMatrix(ffn), OpeningBias(ffn), scale);
  for (float& bias : data.gate.biases) bias -= config_.ffn.threshold;
  if (input_layer != layer_idx) {
    Samples own = store.train(layer_idx, layer_idx);
    own.input_scale = scale;
    data.gate = LookAhead(gemm_, data.gate, data.train, own);
  }
  return data;
}

Status Finder::AddAhead(const SampleStore& store, size_t layer_idx,
                        const FitOptions& fit, LayerFindings& findings) {
  if (findings.trained.rank == 0) return {};
  FitOptions shorter = fit;
  shorter.num_steps = std::max<size_t>(20, fit.num_steps / kAheadShare);
  for (size_t ahead = 0; ahead <= std::min(kMaxAhead, layer_idx); ++ahead) {
    TC_ASSIGN_OR_RETURN(
        const Accuracy accuracy,
        MeasureAhead(gemm_, DataOf(store, layer_idx, layer_idx - ahead),
                     findings.trained.rank,
                     findings.trained.candidates_per_fired, shorter));
    findings.recall_ahead.push_back(accuracy.recall());
  }
  return {};
}

PredictorFindings FindingsOf(const Accuracy& accuracy, size_t rank, DType dtype,
                             uint64_t num_bytes) {
  return {.rank = rank,
          .dtype = dtype,
          .num_bytes = num_bytes,
          .recall = accuracy.recall(),
          .precision = accuracy.precision(),
          .candidates_per_fired = accuracy.candidates_per_fired()};
}

Result<LayerFile> Finder::FitLayer(const SampleStore& store, size_t layer_idx) {
  LayerFile layer;
  FitOptions fit = {.goal = options_.goal,
                    .num_steps = options_.num_steps,
                    .seed = options_.seed,
                    .cancel = options_.session.cancel};
  const std::string what =
      fmt::format("layer {} of {}", layer_idx + 1, layers_.size());
  fit.progress = [&](size_t num_done, size_t num_total) {
    ReportProgress(options_.progress, what, num_done, num_total);
  };
  const auto lookahead = static_cast<size_t>(options_.lookahead);
  const size_t input_layer = layer_idx - std::min(layer_idx, lookahead);
  const FitData data = DataOf(store, layer_idx, input_layer);
  layer.findings.ffn_bytes = data.ffn_bytes;
  if (options_.predictors) {
    TC_ASSIGN_OR_RETURN(FittedPredictor fitted, FitPredictor(gemm_, data, fit));
    layer.trained = std::move(fitted.predictor);
    layer.findings.reason = fitted.reason;
    if (layer.trained) {
      layer.findings.trained = FindingsOf(fitted.accuracy, fitted.rank,
                                          fitted.dtype, fitted.num_bytes);
    }
  }
  if (options_.free_predictors) {
    const FreeOptions free_options = {
        .goal = options_.goal,
        .seed = options_.seed,
        .kernels = &kernels::KernelsFor(options_.session.isa)};
    FittedFree fitted =
        input_layer == layer_idx
            ? FitFree(gemm_, data, free_options)
            : FitFree(gemm_, DataOf(store, layer_idx, layer_idx), free_options);
    layer.free = std::move(fitted.predictor);
    if (layer.free) {
      layer.findings.free =
          FindingsOf(fitted.accuracy, fitted.rank, DType::kQ8_0,
                     fitted.num_sign_bytes + fitted.num_margin_bytes);
      layer.findings.free_sign_candidates_per_fired =
          fitted.signs.candidates_per_fired();
    }
  }
  if (options_.reports_ahead) {
    TC_RETURN_IF_ERROR(AddAhead(store, layer_idx, fit, layer.findings));
  }
  const neuron::LayerProfile& profile = out_.profile.layers[layer_idx];
  layer.findings.density = profile.density();
  layer.findings.skew = profile.skew();
  layer.findings.locality = profile.locality();
  return layer;
}

bool Finder::IsKept(const LayerRange& group) const {
  for (size_t i = group.first; i < group.end; ++i) {
    if (!work_.Has(LayerStage(i))) return false;
  }
  return true;
}

void Finder::MakeStore(const LayerRange& group) {
  const size_t first = group.first - std::min(group.first, NumBefore());
  store_.emplace(corpus_, num_samples_, LayerRange{first, group.end},
                 static_cast<size_t>(config_.width),
                 static_cast<size_t>(config_.ffn_width));
}

Status Finder::FitGroup(const LayerRange& group) {
  const bool is_kept = IsKept(group);
  if (!is_kept && !store_) {
    const Stopwatch watch;
    MakeStore(group);
    TC_RETURN_IF_ERROR(RunCorpus(
        model_, corpus_, options_.session, "gathering", options_.progress,
        [&](size_t chunk_idx, const engine::FfnObservation& seen) {
          store_->Add(chunk_idx, seen);
        }));
    out_.stages.push_back({fmt::format("samples of layers {}-{}",
                                       store_->layers().first, group.end - 1),
                           watch.Seconds()});
  }
  const Stopwatch watch;
  for (size_t i = group.first; i < group.end; ++i) {
    const std::string path = work_.FileOf(LayerStage(i));
    if (work_.Has(LayerStage(i))) {
      ++out_.num_layers_kept;
    } else {
      TC_ASSIGN_OR_RETURN(const LayerFile layer, FitLayer(*store_, i));
      TC_RETURN_IF_ERROR(
          WriteLayerFile(layer, i, options_.lookahead, config_, path));
    }
    // Also what was just written: a run in one go and one that was interrupted
    // take the same way.
    auto layer = ReadLayerFile(path, i, config_);
    if (!layer) return work_.Unreadable(layer.error());
    layers_[i] = *std::move(layer);
  }
  store_.reset();
  if (!is_kept) {
    out_.stages.push_back(
        {fmt::format("predictors of layers {}-{}", group.first, group.end - 1),
         watch.Seconds()});
  }
  return {};
}

void Finder::Assemble() {
  const size_t num_layers = layers_.size();
  convert::PreparedParts& parts = out_.parts;
  parts.lookahead = options_.lookahead;
  parts.predictors.resize(num_layers);
  parts.free_predictors.resize(num_layers);
  out_.layers.resize(num_layers);
  for (size_t i = 0; i < num_layers; ++i) {
    if (layers_[i]) {
      parts.predictors[i] = std::move(layers_[i]->trained);
      parts.free_predictors[i] = std::move(layers_[i]->free);
      out_.layers[i] = std::move(layers_[i]->findings);
    } else {
      const neuron::LayerProfile& profile = out_.profile.layers[i];
      out_.layers[i].density = profile.density();
      out_.layers[i].skew = profile.skew();
      out_.layers[i].locality = profile.locality();
    }
  }
  const auto is_there = [](const auto& part) { return part.has_value(); };
  if (std::ranges::none_of(parts.predictors, is_there)) {
    parts.predictors.clear();
    parts.lookahead = 0;
  }
  if (std::ranges::none_of(parts.free_predictors, is_there)) {
    parts.free_predictors.clear();
  }
  AddCandidates(gemm_, parts);
  // As they were here, whatever flags had a part in it.
  parts.activation = config_.ffn.activation;
  if (config_.ffn.activation == Activation::kFatRelu) {
    parts.ffn_threshold = config_.ffn.threshold;
  }
}

Result<Findings> Finder::Find() {
  if (is_fitted_) TC_RETURN_IF_ERROR(PlanGroups());
  TC_RETURN_IF_ERROR(Scan());
  TC_RETURN_IF_ERROR(ReadScan());
  if (is_fitted_) {
    for (const LayerRange& group : groups_) {
      TC_RETURN_IF_ERROR(FitGroup(group));
    }
  }
  Assemble();
  return std::move(out_);
}

}  // namespace

std::string DescribeWork(const model::Model& model, const Corpus& corpus,
                         const FindOptions& options) {
  const model::ModelFingerprint print = model::FingerprintOf(model);
  const model::Config& config = model.config();
  uint64_t corpus_hash = 0;
  for (size_t i = 0; i < corpus.num_chunks(); ++i) {
    corpus_hash = corpus_hash * 31 + HashOf(corpus.chunk(i));
  }
  const auto optional = [](const std::optional<double>& value) {
    return value ? fmt::format("{}", *value) : std::string("none");
  };
  return fmt::format(
      "model: {} of {} layers, width {}, {} neurons, {} experts, norms "
      "{:016x}, {} bytes\n"
      "activation: {} {}\n"
      "text: {} tokens in chunks of {}, hash {:016x}\n"
      "recall: {}, at least {}, candidates {}\n"
      "lookahead: {}\n"
      "seed: {}\n"
      "steps: {}, samples {}\n"
      "memory: {}\n"
      "predictors: trained {}, free {}, report on lookahead {}\n"
      "thresholds: density {}, cost {}\n"
      "instruction set: {}\n",
      print.architecture, print.num_layers, print.width, print.ffn_width,
      print.num_experts, print.hash, model.file().num_file_bytes(),
      NameOf(config.ffn.activation), config.ffn.threshold, corpus.num_tokens(),
      corpus.chunk_tokens(), corpus_hash, options.goal.recall,
      options.goal.recall_floor, options.goal.max_candidates, options.lookahead,
      options.seed, options.num_steps, options.max_samples,
      options.max_memory_bytes, options.predictors, options.free_predictors,
      options.reports_ahead, optional(options.density),
      optional(options.max_ppl_cost), NameOf(options.session.isa));
}

Result<Findings> FindParts(const std::shared_ptr<const model::Model>& model,
                           const Corpus& corpus, const FindOptions& options,
                           const WorkFolder& work) {
  TC_RETURN_IF_ERROR(CheckOptions(*model, options));
  TC_RETURN_IF_ERROR(LoadBlas());
  TC_ASSIGN_OR_RETURN(
      const auto pool,
      os::ThreadPool::Create(
          {.num_threads = options.session.num_threads, .pin = false}));
  return Finder(model, corpus, options, work, pool.get()).Find();
}

}  // namespace thermocline::training

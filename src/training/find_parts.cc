#include "training/find_parts.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "engine/ffn/ffn_choice.h"
#include "os/thread_pool.h"
#include "training/blas.h"
#include "training/candidates.h"
#include "training/fit_plan.h"
#include "training/gemm.h"
#include "training/layer_file.h"
#include "training/layer_fit.h"
#include "training/neuron_order.h"
#include "training/sample_store.h"
#include "training/scan_corpus.h"

namespace thermocline::training {
namespace {

// Why no predictors are fitted that are asked for; empty if they are.
std::string WhyNone(const model::FfnSpec& ffn) {
  if (!HasZeros(ffn.activation)) {
    return fmt::format(
        "{} is nowhere 0, and what thresholds shut is not "
        "predicted: all gates are computed, in FFN mode "
        "threshold",
        NameOf(ffn.activation));
  }
  return "";
}

class Finder {
 public:
  Finder(std::shared_ptr<const model::Model> model, const Corpus& corpus,
         const FindOptions& options, const WorkFolder& work)
      : model_(std::move(model)),
        corpus_(corpus),
        options_(options),
        work_(work) {
    options_.session.ffn = engine::FfnMode::kDense;
    out_.is_mixture = CommonFfn(model_->config()).num_experts > 0;
    if (options_.wants_predictors()) {
      out_.no_predictors = WhyNone(CommonFfn(model_->config()));
      is_fitted_ = out_.no_predictors.empty();
    }
  }

  Result<Findings> Find();

 private:
  static std::string StageOf(size_t layer_idx) {
    return fmt::format("layer-{}", layer_idx);
  }
  bool IsKept(size_t layer_idx) const { return work_.Has(StageOf(layer_idx)); }
  bool IsKept(const LayerRange& group) const;
  Status PlanFitting();
  void MakeStore(const LayerRange& group);
  Status Scan();
  Status ReadScan();
  Status Gather(const LayerRange& group);
  Status FitGroup(const LayerRange& group);
  Result<LayerFile> ReadLayer(size_t layer_idx) const;
  Status Assemble();

  std::shared_ptr<const model::Model> model_;
  const Corpus& corpus_;
  FindOptions options_;
  const WorkFolder& work_;
  bool is_fitted_ = false;
  std::unique_ptr<os::ThreadPool> pool_;  // these three where it is fitted
  std::optional<Gemm> gemm_;
  FitPlan plan_;
  std::optional<SampleStore> store_;  // of one group
  Findings out_;
};

bool Finder::IsKept(const LayerRange& group) const {
  for (size_t i = group.first; i < group.end; ++i) {
    if (!IsKept(i)) return false;
  }
  return true;
}

// OpenBLAS is needed here, and only here: who fits nothing may lack it.
Status Finder::PlanFitting() {
  TC_ASSIGN_OR_RETURN(const Blas* blas, LoadBlas());
  TC_ASSIGN_OR_RETURN(
      pool_, os::ThreadPool::Create(
                 {.num_threads = options_.session.num_threads, .pin = false}));
  TC_RETURN_IF_ERROR(ReserveSpace(*blas, pool_->num_threads()));
  gemm_.emplace(pool_.get());
  TC_ASSIGN_OR_RETURN(plan_, PlanFit(*model_, corpus_, options_));
  return {};
}

void Finder::MakeStore(const LayerRange& group) {
  const model::Config& config = model_->config();
  const size_t num_before = std::min(group.first, options_.num_layers_before());
  store_.emplace(corpus_, plan_.num_samples,
                 LayerRange{group.first - num_before, group.end}, config.width,
                 NeuronsOf(config));
}

Status Finder::Scan() {
  if (IsScanned(work_)) return {};
  // The first group's samples come along.
  if (is_fitted_ && !IsKept(plan_.groups.front())) {
    MakeStore(plan_.groups.front());
  }
  return ScanCorpus(model_, corpus_, options_, work_,
                    store_ ? &*store_ : nullptr, out_.stages);
}

Status Finder::ReadScan() {
  TC_ASSIGN_OR_RETURN(Scanned scanned, ReadScanned(*model_, work_));
  out_.profile = std::move(scanned.profile.profile);
  // The run that goes on may name the same text otherwise.
  scanned.profile.corpus = options_.corpus_name;
  pack::PreparedParts& parts = out_.parts;
  parts.self_test = std::move(scanned.scan.self_test);
  parts.thresholds = std::move(scanned.scan.thresholds);
  out_.threshold_density = options_.density;
  if (const auto& choice = scanned.scan.choice) {
    out_.threshold_density = choice->density;
    out_.threshold_perplexity = choice->perplexity;
    out_.dense_perplexity = choice->dense_perplexity;
  }
  scanned.profile.profile = out_.profile;
  parts.keys = model::ProfileKeys(scanned.profile);
  for (const neuron::LayerProfile& layer : out_.profile.layers) {
    parts.profile_counts.push_back(layer.counts);
  }
  return {};
}

// A run over the corpus for a group's samples, unless another brought them.
Status Finder::Gather(const LayerRange& group) {
  if (store_) return {};
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
  return {};
}

Status Finder::FitGroup(const LayerRange& group) {
  const bool is_kept = IsKept(group);
  if (!is_kept) TC_RETURN_IF_ERROR(Gather(group));
  const Stopwatch watch;
  for (size_t i = group.first; i < group.end; ++i) {
    if (IsKept(i)) {
      // Damage shows before hours of work, not after.
      TC_RETURN_IF_ERROR(ReadLayer(i));
      ++out_.num_layers_kept;
      continue;
    }
    TC_ASSIGN_OR_RETURN(const LayerFile layer,
                        FitLayer(*gemm_, *model_, *store_,
                                 out_.profile.layers[i], i, options_));
    TC_ASSIGN_OR_RETURN(const auto path, work_.FileToWrite(StageOf(i)));
    TC_RETURN_IF_ERROR(WriteLayerFile(layer, i,
                                      static_cast<size_t>(options_.lookahead),
                                      model_->config(), path));
    TC_RETURN_IF_ERROR(work_.Finish(StageOf(i)));
  }
  store_.reset();
  if (!is_kept) {
    out_.stages.push_back(
        {fmt::format("predictors of layers {}-{}", group.first, group.end - 1),
         watch.Seconds()});
  }
  return {};
}

Result<LayerFile> Finder::ReadLayer(size_t layer_idx) const {
  TC_ASSIGN_OR_RETURN(const std::string path,
                      work_.FileToRead(StageOf(layer_idx)));
  auto layer = ReadLayerFile(path, layer_idx, model_->config());
  if (!layer) return work_.Unreadable(layer.error());
  return layer;
}

// Puts the layers' files together: a run in one go and one that was interrupted
// take the same way.
Status Finder::Assemble() {
  const size_t num_layers = out_.profile.layers.size();
  pack::PreparedParts& parts = out_.parts;
  parts.lookahead = static_cast<size_t>(options_.lookahead);
  parts.predictors.resize(num_layers);
  parts.training_free.resize(num_layers);
  const Neurons neurons = NeuronsOf(model_->config());
  parts.order_group_size =
      static_cast<int64_t>(OrderGroupSize(neurons.ffn_width()));
  for (size_t i = 0; i < num_layers; ++i) {
    if (!is_fitted_) {
      const neuron::LayerProfile& profile = out_.profile.layers[i];
      out_.layers.push_back(
          {.density = DensityOfUsed(profile.density(), neurons),
           .skew = profile.skew(),
           .locality = profile.locality()});
      parts.order.push_back(OrderByHeat(neurons, profile.counts));
      continue;
    }
    TC_ASSIGN_OR_RETURN(LayerFile layer, ReadLayer(i));
    parts.predictors[i] = std::move(layer.trained);
    parts.training_free[i] = std::move(layer.free);
    parts.order.push_back(std::move(layer.order));
    out_.layers.push_back(std::move(layer.findings));
  }
  const auto is_there = [](const auto& part) { return part.has_value(); };
  if (std::ranges::none_of(parts.predictors, is_there)) {
    parts.predictors.clear();
    parts.lookahead = 0;
  }
  if (std::ranges::none_of(parts.training_free, is_there)) {
    parts.training_free.clear();
  }
  if (is_fitted_) AddCandidates(*gemm_, neurons, parts);
  // As they were here, whatever flags had a part in it.
  const model::FfnSpec& ffn = CommonFfn(model_->config());
  parts.activation = ffn.activation;
  if (ffn.activation == Activation::kFatRelu) {
    parts.ffn_threshold = ffn.threshold;
  }
  return {};
}

Result<Findings> Finder::Find() {
  if (is_fitted_) TC_RETURN_IF_ERROR(PlanFitting());
  TC_RETURN_IF_ERROR(Scan());
  TC_RETURN_IF_ERROR(ReadScan());
  for (const LayerRange& group : plan_.groups) {
    TC_RETURN_IF_ERROR(FitGroup(group));
  }
  TC_RETURN_IF_ERROR(Assemble());
  return std::move(out_);
}

}  // namespace

Result<Findings> FindParts(const std::shared_ptr<const model::Model>& model,
                           const Corpus& corpus, const FindOptions& options,
                           const WorkFolder& work) {
  TC_RETURN_IF_ERROR(CheckOptions(*model, options));
  return Finder(model, corpus, options, work).Find();
}

}  // namespace thermocline::training

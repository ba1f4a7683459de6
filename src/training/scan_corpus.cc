#include "training/scan_corpus.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/remedy.h"
#include "kernels/kernels.h"
#include "training/profile_corpus.h"
#include "training/scan.h"
#include "training/threshold_search.h"

namespace thermocline::training {
namespace {

constexpr char kScanStage[] = "scan";        // self-test and thresholds
constexpr char kProfileStage[] = "profile";  // written before it
// Of the thresholds' search: held-out tokens that each density is tried on.
constexpr size_t kMaxTestTokens = 4096;

Status CheckDensity(const neuron::Profile& profile, const model::Model& model,
                    const FindOptions& options) {
  if (options.wants_thresholds()) return {};
  return CheckSparsity(
      model, DensityOfUsed(profile.density(), NeuronsOf(model.config())),
      profile.num_tokens());
}

// Fills thresholds and choice.
Status ChooseThresholds(const std::shared_ptr<const model::Model>& model,
                        const Corpus& corpus, const FindOptions& options,
                        const GateSizes& gates, ScanFile& out) {
  if (options.density.has_value()) {
    out.thresholds = gates.ThresholdsFor(*options.density);
    return {};
  }
  const auto perplexity_at =
      [&](const std::vector<float>& thresholds) -> Result<double> {
    return MeasurePerplexity(
        model, corpus,
        std::max<size_t>(1, kMaxTestTokens / corpus.chunk_tokens()),
        options.session, thresholds);
  };
  TC_ASSIGN_OR_RETURN(const double dense, perplexity_at({}));
  if (!std::isfinite(dense)) {
    return Fail(ErrorCode::kUnsupported, Advice{Remedy::kDensity},
                "{}: its perplexity on held-out text is not finite, so nothing "
                "can be said of what thresholds cost: its weights are damaged, "
                "or it has another activation than was said",
                model->file().path());
  }
  TC_ASSIGN_OR_RETURN(
      out.choice,
      FindDensity(*options.max_ppl_cost, dense, [&](double density) {
        return perplexity_at(gates.ThresholdsFor(density));
      }));
  out.thresholds = gates.ThresholdsFor(out.choice->density);
  return {};
}

// Without thresholds every neuron fires: what they leave is counted by itself,
// as `profile` counts it in the finished file.
Result<neuron::Profile> ProfileWith(const std::vector<float>& thresholds,
                                    const model::Model& model,
                                    const Corpus& corpus,
                                    const FindOptions& options) {
  engine::SessionOptions session_options = options.session;
  session_options.ffn = engine::FfnMode::kThreshold;
  return CountFired(model.WithThresholds(thresholds), corpus, session_options,
                    options.progress);
}

// Runs the model over the corpus.
Status FillScan(const std::shared_ptr<const model::Model>& model,
                const Corpus& corpus, const FindOptions& options,
                SampleStore* store, Scan& scan) {
  TC_RETURN_IF_ERROR(RunCorpus(
      model, corpus, options.session, "profiling", options.progress,
      [&](size_t chunk_idx, const engine::FfnObservation& seen) {
        scan.Add(chunk_idx, seen);
        if (store != nullptr) store->Add(chunk_idx, seen);
      },
      // Whether it is worth going on shows at once.
      [&](size_t chunk_idx) -> Status {
        return chunk_idx == 0 ? CheckDensity(scan.profile(), *model, options)
                              : Status();
      }));
  return CheckDensity(scan.profile(), *model, options);
}

}  // namespace

bool IsScanned(const WorkFolder& work) { return work.Has(kScanStage); }

Status ScanCorpus(const std::shared_ptr<const model::Model>& model,
                  const Corpus& corpus, const FindOptions& options,
                  const WorkFolder& work, SampleStore* store,
                  std::vector<Stage>& stages) {
  const Stopwatch watch;
  Scan scan(model->config(), corpus, options.wants_thresholds(),
            kernels::KernelsFor(options.session.isa));
  TC_RETURN_IF_ERROR(FillScan(model, corpus, options, store, scan));
  stages.push_back(
      {store != nullptr ? "profile and samples" : "profile", watch.Seconds()});
  ScanFile out = {.self_test = scan.self_test()};
  neuron::Profile profile = scan.profile();
  if (options.wants_thresholds()) {
    const Stopwatch threshold_watch;
    TC_RETURN_IF_ERROR(
        ChooseThresholds(model, corpus, options, scan.gates(), out));
    stages.push_back({"thresholds", threshold_watch.Seconds()});
    const Stopwatch profile_watch;
    TC_ASSIGN_OR_RETURN(profile,
                        ProfileWith(out.thresholds, *model, corpus, options));
    stages.push_back({"profile with thresholds", profile_watch.Seconds()});
  }
  TC_ASSIGN_OR_RETURN(const auto profile_path, work.FileToWrite(kProfileStage));
  TC_RETURN_IF_ERROR(model::WriteProfile(
      {.model = model::FingerprintOf(*model),
       .corpus = options.corpus_name,
       .context = static_cast<int64_t>(corpus.chunk_tokens()),
       .profile = std::move(profile)},
      profile_path));
  TC_RETURN_IF_ERROR(work.Finish(kProfileStage));
  TC_ASSIGN_OR_RETURN(const auto scan_path, work.FileToWrite(kScanStage));
  TC_RETURN_IF_ERROR(WriteScanFile(out, model->config(), scan_path));
  return work.Finish(kScanStage);
}

Result<Scanned> ReadScanned(const model::Model& model, const WorkFolder& work) {
  TC_ASSIGN_OR_RETURN(const std::string path, work.FileToRead(kProfileStage));
  TC_ASSIGN_OR_RETURN(const std::string scan_path, work.FileToRead(kScanStage));
  auto profile = model::ReadProfile(path);
  if (!profile) return work.Unreadable(profile.error());
  const Status is_same =
      model::CheckSameModel(profile->model, model, path + ": was made");
  if (!is_same) return work.Unreadable(is_same.error());
  auto scan = ReadScanFile(scan_path, model.config());
  if (!scan) return work.Unreadable(scan.error());
  return Scanned{.profile = *std::move(profile), .scan = *std::move(scan)};
}

}  // namespace thermocline::training

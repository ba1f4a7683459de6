// Profiling: which neurons a model fires over a text.
#ifndef THERMOCLINE_TRAINING_PROFILE_CORPUS_H_
#define THERMOCLINE_TRAINING_PROFILE_CORPUS_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "base/progress.h"
#include "base/status.h"
#include "engine/ffn/ffn_mode.h"
#include "engine/session.h"
#include "model/config.h"
#include "model/model.h"
#include "neuron/profile.h"
#include "training/corpus.h"

namespace thermocline::training {

// A profile in which more than this share of the neurons fires, on average over
// the layers, tells nothing apart.
inline constexpr double kMaxProfileDensity = 0.9;

// kUnsupported, with what to do: `density`, of the neurons of a model or of the
// experts that its tokens use, seen over `num_tokens`, is more than that.
Status CheckSparsity(const model::Model& model, double density,
                     uint64_t num_tokens);

// The mode that shows what fires by itself and not by a guess: kDense, or
// kThreshold where the file brings thresholds, which say what counts as firing.
engine::FfnMode ProfileMode(const model::Config& config);

// Counts what fires in every layer at every position of the corpus, each chunk
// from an empty context, with a session of `options`, whose context, observer
// and progress are this function's own. What fires is what that mode computes;
// options.ffn is ProfileMode() to profile the model itself: every neuron of the
// FFN (or of the experts that the router chose) is looked at.
// kUnsupported: layers whose numbers of neurons differ. Errors of the session
// name the chunk; errors of `check`, which sees the
// profile after the first chunk and at the end, and may be empty.
// Cost: one prefill of the corpus; memory of the session and 8 bytes a neuron.
// Source: PowerInfer 6.1.
Result<neuron::Profile> CountFired(
    const std::shared_ptr<const model::Model>& model, const Corpus& corpus,
    engine::SessionOptions options, const ProgressFn& progress,
    const std::function<Status(const neuron::Profile& profile)>& check = {});

// CountFired of a model that must have sparsity: CheckSparsity's error.
Result<neuron::Profile> ProfileCorpus(
    const std::shared_ptr<const model::Model>& model, const Corpus& corpus,
    engine::SessionOptions options, const ProgressFn& progress);

}  // namespace thermocline::training

#endif  // THERMOCLINE_TRAINING_PROFILE_CORPUS_H_

#include "bench/sequence_group.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/remedy.h"
#include "bench/logits_hash.h"

namespace thermocline::bench {

using engine::BatchRun;
using engine::LogitsOf;
using engine::Phase;
using text::TokenId;

Status CheckAsAlone(std::span<const uint64_t> alone,
                    std::span<const uint64_t> together) {
  for (size_t i = 0; i < together.size(); ++i) {
    if (together[i] == alone[i]) continue;
    return Fail(ErrorCode::kCorrupt,
                "sequence {} of {} gave other logits than when it ran alone; "
                "the speed of a wrong result means nothing",
                i + 1, together.size());
  }
  return {};
}

Result<std::unique_ptr<SequenceGroup>> SequenceGroup::Create(
    std::shared_ptr<const model::Model> model,
    const engine::SessionOptions& options, TokenProgress* progress) {
  TC_ASSIGN_OR_RETURN(auto runtime, engine::Runtime::Create(model, options));
  return std::unique_ptr<SequenceGroup>(new SequenceGroup(
      std::move(model), std::move(runtime), options, progress));
}

SequenceGroup::SequenceGroup(std::shared_ptr<const model::Model> model,
                             std::unique_ptr<engine::Runtime> runtime,
                             const engine::SessionOptions& options,
                             TokenProgress* progress)
    : model_(std::move(model)),
      runtime_(std::move(runtime)),
      hooks_{.cancel = options.cancel, .layers_done = nullptr},
      progress_(progress),
      choice_(*model_) {
  const auto num_sequences = static_cast<size_t>(options.num_sequences);
  for (size_t i = 0; i < num_sequences; ++i) {
    sequences_.push_back(runtime_->NewSequence());
  }
  logits_.resize(num_sequences * vocab_size());
}

size_t SequenceGroup::vocab_size() const { return model_->config().vocab_size; }

Status SequenceGroup::Start(std::vector<SequenceStory> stories,
                            int64_t num_passes) {
  TC_CHECK(num_passes > 0 && stories.size() <= sequences_.size());
  stories_ = std::move(stories);
  num_passes_ = static_cast<size_t>(num_passes);
  hashes_.assign(stories_.size(), kNoLogits);
  for (engine::KvSequence& sequence : sequences_) sequence.Truncate(0);
  for (size_t i = 0; i < stories_.size(); ++i) {
    TC_RETURN_IF_ERROR(Prefill(i));
    TC_RETURN_IF_ERROR(GenerateAlone(i));
  }
  alone_ = hashes_;
  return {};
}

// Leaves the last position's logits in the first row.
Status SequenceGroup::Prefill(size_t idx) {
  const std::span<const TokenId> prompt = stories_[idx].prompt;
  const auto max_rows = static_cast<size_t>(runtime_->plan().engine.max_rows);
  for (size_t begin = 0; begin < prompt.size(); begin += max_rows) {
    const size_t count = std::min(max_rows, prompt.size() - begin);
    const BatchRun run = {.sequence = &sequences_[idx],
                          .tokens = prompt.subspan(begin, count),
                          .phase = Phase::kPrompt,
                          .logits = LogitsOf::kLast};
    TC_RETURN_IF_ERROR(runtime_->engine().Run(
        {{&run, 1}}, std::span(logits_).first(vocab_size()), hooks_));
    progress_->Add(count);
  }
  return {};
}

Status SequenceGroup::GenerateAlone(size_t idx) {
  std::vector<TokenId>& tokens = stories_[idx].generated;
  const bool chooses = tokens.empty();
  TC_CHECK(chooses ? !stories_[idx].prompt.empty()
                   : tokens.size() == num_passes_);
  const std::span<float> last = std::span(logits_).first(vocab_size());
  for (size_t pass = 0; pass < num_passes_; ++pass) {
    if (chooses) tokens.push_back(choice_.Choose(last));
    TC_RETURN_IF_ERROR(RunPass(idx, 1, pass));
  }
  return {};
}

Result<double> SequenceGroup::Generate(size_t num_sequences) {
  TC_CHECK(num_sequences >= 1 && num_sequences <= stories_.size());
  for (size_t i = 0; i < num_sequences; ++i) {
    sequences_[i].Truncate(static_cast<int64_t>(stories_[i].prompt.size()));
    hashes_[i] = kNoLogits;
  }
  double seconds = 0.0;
  for (size_t pass = 0; pass < num_passes_; ++pass) {
    TC_ASSIGN_OR_RETURN(const double one, RunPass(0, num_sequences, pass));
    seconds += one;
  }
  TC_RETURN_IF_ERROR(
      CheckAsAlone(alone_, std::span(hashes_).first(num_sequences)));
  return seconds;
}

Result<double> SequenceGroup::RunPass(size_t first, size_t count, size_t pass) {
  runs_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    runs_[i] = {
        .sequence = &sequences_[first + i],
        .tokens = std::span(stories_[first + i].generated).subspan(pass, 1),
        .phase = Phase::kGenerate,
        .logits = LogitsOf::kLast};
  }
  const std::span<float> logits =
      std::span(logits_).first(count * vocab_size());
  const Stopwatch watch;
  TC_RETURN_IF_ERROR(runtime_->engine().Run({runs_}, logits, hooks_));
  const double seconds = std::max(watch.Seconds(), 1e-9);
  for (size_t i = 0; i < count; ++i) {
    const std::optional<uint64_t> hash = FoldLogits(
        logits.subspan(i * vocab_size(), vocab_size()), hashes_[first + i]);
    if (!hash.has_value()) {
      return Fail(ErrorCode::kCorrupt, Advice{Remedy::kCheckTensors},
                  "logits of sequence {} are not finite; the model's weights "
                  "are damaged",
                  first + i + 1);
    }
    hashes_[first + i] = *hash;
  }
  progress_->Add(count);
  return seconds;
}

}  // namespace thermocline::bench

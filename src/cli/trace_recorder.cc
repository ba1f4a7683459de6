#include "cli/trace_recorder.h"

#include <algorithm>

namespace thermocline::cli {

TraceRecorder::TraceRecorder(neuron::TraceWriter* writer,
                             const neuron::TraceHeader& header,
                             engine::PredictorProbe* probe)
    : writer_(writer), header_(header), probe_(probe) {}

void TraceRecorder::BeginPrompt(size_t num_tokens, const std::string& section) {
  num_prompt_ = static_cast<int64_t>(num_tokens);
  section_ = section.substr(0, neuron::kMaxTraceSection);
  begins_ = true;
}

void TraceRecorder::See(const engine::FfnObservation& seen) {
  const bool is_generated = seen.position >= num_prompt_;
  if (header_.positions == neuron::TracePositions::kGenerated &&
      !is_generated) {
    return;
  }
  if (seen.layer_idx == 0) {
    if (previous_layer_ == header_.num_layers - 1) Flush();
    if (status_.has_value()) BeginToken(is_generated);
  }
  previous_layer_ = seen.layer_idx;
  if (status_.has_value()) status_ = Record(seen);
}

void TraceRecorder::BeginToken(bool is_generated) {
  const neuron::TraceToken token = {.begins_sequence = begins_,
                                    .is_generated = is_generated};
  if (begins_) writer_->NameSection(section_);
  begins_ = false;
  writer_->AddTokens({&token, 1});
}

Status TraceRecorder::Record(const engine::FfnObservation& seen) {
  writer_->AddSet(seen.layer_idx, seen.fired);
  if (header_.num_experts > 0) {
    experts_.assign(seen.experts.begin(), seen.experts.end());
    std::ranges::sort(experts_);
    writer_->AddExperts(seen.layer_idx, experts_);
  }
  if (header_.has_candidates) TC_RETURN_IF_ERROR(AskCandidates(seen));
  return AskAhead(seen);
}

// Of those layers whose predictors read what this one does.
Status TraceRecorder::AskCandidates(const engine::FfnObservation& seen) {
  for (const size_t l : {seen.layer_idx, seen.layer_idx + 1}) {
    if (l >= header_.num_layers || probe_->SourceOf(l) != seen.layer_idx) {
      continue;
    }
    TC_ASSIGN_OR_RETURN(const auto named, probe_->Ask(seen, l));
    writer_->AddCandidates(l, named);
  }
  return {};
}

Status TraceRecorder::AskAhead(const engine::FfnObservation& seen) {
  for (uint32_t k = 0; k <= neuron::kMaxTraceLookahead; ++k) {
    const size_t l = seen.layer_idx + k;
    if (!header_.HasLookahead(k) || l >= header_.num_layers) continue;
    std::span<const uint32_t> named;
    if (probe_->HasPredictor(l)) {
      TC_ASSIGN_OR_RETURN(named, probe_->Ask(seen, l));
    }
    writer_->AddNamed(k, l, named);
  }
  return {};
}

void TraceRecorder::Flush() {
  if (status_.has_value()) status_ = writer_->Flush();
}

}  // namespace thermocline::cli

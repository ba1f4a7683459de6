#include "cli/trace_recorder.h"

#include <algorithm>

#include "model/profile_file.h"
#include "model/weight_bytes.h"

namespace thermocline::cli {

Result<neuron::TraceHeader> TraceHeaderOf(const model::Model& model) {
  TC_RETURN_IF_ERROR(
      CheckEqualWidths(model.config(), model.file().path() + ": a trace"));
  const size_t num_neurons = model::NeuronsPerLayer(model.config());
  if (num_neurons > neuron::kMaxTraceNeurons) {
    return Fail(ErrorCode::kUnsupported,
                "{}: its {} neurons per layer are more than a trace can hold",
                model.file().path(), num_neurons);
  }
  const model::ModelFingerprint fingerprint = model::FingerprintOf(model);
  neuron::TraceHeader header = {
      .num_layers = static_cast<uint32_t>(fingerprint.num_layers),
      .num_neurons = static_cast<uint32_t>(num_neurons),
      .model_hash = fingerprint.hash,
      .model_name = fingerprint.name.substr(0, neuron::kMaxTraceName),
      .num_experts = static_cast<uint32_t>(fingerprint.num_experts)};
  for (size_t l = 0; l < header.num_layers; ++l) {
    header.unit_bytes.push_back(
        model::UnitBytes(model.config(), model.weights(), l));
  }
  return header;
}

TraceRecorder::TraceRecorder(neuron::TraceWriter* writer,
                             const neuron::TraceHeader& header,
                             engine::PredictorProbe* probe, int64_t batch)
    : writer_(writer), header_(header), probe_(probe), batch_(batch) {}

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
    if (status_.has_value()) BeginToken(seen.position);
  }
  previous_layer_ = seen.layer_idx;
  if (status_.has_value()) status_ = Record(seen);
}

void TraceRecorder::BeginToken(int64_t position) {
  const bool is_generated = position >= num_prompt_;
  const neuron::TraceToken token = {.begins_sequence = begins_,
                                    .is_generated = is_generated,
                                    .is_together = header_.run &&
                                                   !is_generated && !begins_ &&
                                                   position % batch_ != 0};
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
  if (probe_ == nullptr) {
    writer_->AddCandidates(seen.layer_idx, seen.candidates);
    return {};
  }
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

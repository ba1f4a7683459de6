#include "cli/run_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "cli/output_file.h"
#include "engine/stream/live_policy.h"
#include "engine/stream/streamed_store.h"
#include "engine/stream/weight_stream.h"
#include "kernels/kernels.h"
#include "model/firing_shares.h"

namespace thermocline::cli {
namespace {

using neuron::TraceLessons;

static_assert(neuron::kTraceLessonRows == engine::StreamedStore::kLearnedRows);

// What of prompts a policy of neurons hears (StreamedDense, ExpertRecords).
Result<TraceLessons> LessonsOfNeurons(const engine::Session& session,
                                      const engine::SessionOptions& options) {
  const model::Config& config = session.model().config();
  const auto refuse = [&](std::string_view why) {
    return Fail(ErrorCode::kUnsupported,
                "{}: --trace-to: what a prompt's neurons tell of who should "
                "stay in memory cannot be traced {}",
                session.model().file().path(), why);
  };
  if (session.ffn() == engine::FfnMode::kDense) {
    return refuse("with --ffn dense: nobody asks who stays");
  }
  if (!options.dense_prompts) return refuse("with --prefill same");
  if (model::CommonFfn(config).num_experts > 0) return TraceLessons::kNone;
  if (session.ffn() == engine::FfnMode::kThreshold) {
    return refuse("with --ffn threshold");
  }
  if (!kernels::KernelsFor(session.isa()).batch) {
    return refuse("with --isa scalar");
  }
  return TraceLessons::kRows;
}

// What the policy of units that come and go began with; nothing without one.
Result<std::optional<neuron::TraceRun>> RunOf(
    const engine::Session& session, const engine::SessionOptions& options) {
  const engine::WeightStream* stream = session.stream();
  if (stream == nullptr || stream->live() == nullptr) return std::nullopt;
  neuron::TraceRun run = {
      .by_experts = stream->unit() == engine::StreamUnit::kExperts,
      .lessons = TraceLessons::kPasses};
  if (!run.by_experts) {
    TC_ASSIGN_OR_RETURN(run.lessons, LessonsOfNeurons(session, options));
  }
  const auto& extents = stream->live()->extents();
  for (size_t l = 0; l < extents.size(); ++l) {
    run.slots.push_back(std::min(extents[l].capacity, extents[l].num_units));
    run.shares.push_back(run.by_experts
                             ? model::ExpertShares(session.model(), l)
                             : model::FiringShares(session.model(), l));
  }
  const auto is_unknown = [](const auto& shares) { return shares.empty(); };
  if (std::ranges::any_of(run.shares, is_unknown)) run.shares.clear();
  return run;
}

}  // namespace

uint64_t RunTrace::NumBytes(const model::Config& config, int64_t batch) {
  constexpr uint64_t kSets = 2;     // who fired, and the candidates
  constexpr uint64_t kBeside = 16;  // of each set: its place in a list
  uint64_t num_bytes = 0;
  for (const model::LayerSpec& layer : config.layers) {
    num_bytes += kSets * (uint64_t{layer.ffn.width} / 8 + kBeside);
  }
  return num_bytes * static_cast<uint64_t>(batch);
}

engine::FfnObserver RunTrace::observer() {
  return [this](const engine::FfnObservation& seen) {
    if (recorder_.has_value()) recorder_->See(seen);
  };
}

Status RunTrace::Begin(const std::string& path, const engine::Session& session,
                       const engine::SessionOptions& options,
                       size_t num_prompt) {
  path_ = path;
  TC_ASSIGN_OR_RETURN(header_, TraceHeaderOf(session.model()));
  TC_ASSIGN_OR_RETURN(header_.run, RunOf(session, options));
  header_.has_candidates = session.ffn() != engine::FfnMode::kDense;
  TC_ASSIGN_OR_RETURN(writer_, neuron::TraceWriter::Create(path, header_));
  // In the file now, and needed no more.
  if (header_.run.has_value()) header_.run->shares = {};
  recorder_.emplace(writer_.get(), header_, nullptr, options.batch);
  recorder_->BeginPrompt(num_prompt, "");
  return {};
}

Result<std::string> RunTrace::Finish(const engine::Session& session) {
  recorder_->Flush();
  TC_RETURN_IF_ERROR(recorder_->status());
  TC_RETURN_IF_ERROR(writer_->Finish());
  std::string text = fmt::format("{}: {}", Wrote(path_),
                                 Plural(writer_->totals().num_tokens, "token"));
  if (header_.run.has_value()) {
    const engine::StreamTotals::OfPhase& generated =
        session.stream_totals().generated;
    text += fmt::format(
        ", {} generated: {}", generated.num_rows,
        DescribePolicyCounts(generated.num_hits, generated.num_wanted,
                             generated.num_admissions, generated.num_moves,
                             generated.num_wasted));
  }
  return text + "\n";
}

std::string DescribePolicyCounts(uint64_t num_hits, uint64_t num_wanted,
                                 uint64_t num_admissions, uint64_t num_moves,
                                 uint64_t num_wasted) {
  return fmt::format("{} of {} hits, {} admitted, {} moved, {} wasted",
                     num_hits, num_wanted, num_admissions, num_moves,
                     num_wasted);
}

}  // namespace thermocline::cli

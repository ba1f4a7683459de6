#include "bench/budget_bench.h"

#include <algorithm>
#include <bit>
#include <span>
#include <utility>

#include "base/clock.h"
#include "base/math.h"
#include "bench/greedy_choice.h"
#include "bench/workload.h"
#include "engine/runtime.h"
#include "engine/weight_bytes.h"
#include "model/weight_bytes.h"
#include "os/memory.h"
#include "probe/storage_rates.h"

namespace thermocline::bench {
namespace {

// Of the weights, what lies in memory whatever is read: what is kept, and the
// slots that do not come and go with each pass.
double ResidentShare(const model::Model& model, engine::StreamUnit unit,
                     const engine::StreamOptions& stream) {
  uint64_t num_bytes = 0;
  for (const gguf::TensorInfo& tensor : model.file().tensors()) {
    num_bytes += tensor.num_bytes;
  }
  const uint64_t slots =
      unit == engine::StreamUnit::kRecords
          ? (stream.arena.num_slots() - stream.arena.pass_slots) *
                stream.arena.slot_bytes
          : (stream.blocks.num_slots() - stream.blocks.pass_slots) *
                stream.blocks.slot_bytes;
  return std::min(1.0,
                  static_cast<double>(model.file().num_held_bytes() + slots) /
                      static_cast<double>(num_bytes));
}

// The best rate of reads of such a size, in any order and depth.
std::optional<double> MeasureDrive(const std::string& path,
                                   std::string_view reader, uint64_t read_bytes,
                                   double seconds) {
  constexpr uint64_t kLeast = 4096;
  constexpr uint64_t kMost = uint64_t{2} << 20;
  const auto rates = probe::MeasureStorage(
      path,
      {.reader = std::string(reader),
       .depths = {8, 32, 64},
       .block_bytes = {std::clamp(std::bit_ceil(read_bytes), kLeast, kMost)},
       .range_bytes = {},
       .seconds = seconds,
       .progress = {}});
  if (!rates) return std::nullopt;
  double best = 0.0;
  for (const probe::StorageRate& rate : rates->rates) {
    best = std::max(best, 1e6 * rate.mb_per_s());
  }
  return best > 0.0 ? std::optional(best) : std::nullopt;
}

class BudgetRun {
 public:
  BudgetRun(const BudgetBenchOptions& options,
            std::shared_ptr<const model::Model> model)
      : options_(options),
        session_options_(options.session),
        model_(std::move(model)),
        choice_(*model_),
        logits_(model_->config().vocab_size) {
    session_options_.read_log = log_;
  }

  Result<BudgetRow> Run(std::span<const PickedPrompt> prompts) {
    TC_ASSIGN_OR_RETURN(session_,
                        engine::Session::Create(model_, session_options_));
    row_.ram = options_.session.budget.ram.value_or(0);
    row_.planned_bytes = session_->memory().host.total();
    TC_RETURN_IF_ERROR(RunPrompt(prompts.front()));
    row_.tokens.clear();
    row_.tokens_per_s.clear();
    log_->Clear();
    for (size_t i = 0; i < prompts.size(); ++i) {
      TC_RETURN_IF_ERROR(RunPrompt(prompts[i]));
      ReportProgress(options_.progress, "prompts", i + 1, prompts.size());
    }
    TC_RETURN_IF_ERROR(Describe());
    Replay();
    return std::move(row_);
  }

 private:
  Status RunPrompt(const PickedPrompt& prompt) {
    session_->Truncate(0);
    TC_RETURN_IF_ERROR(
        session_->Prompt(prompt.tokens, engine::LogitsOf::kLast, logits_));
    double seconds = 0.0;
    for (int64_t i = 1; i < options_.test.num_generate; ++i) {
      TC_ASSIGN_OR_RETURN(const StreamedToken token, NextToken());
      seconds += token.seconds;
      row_.tokens.push_back(token);
    }
    row_.tokens_per_s.push_back(
        static_cast<double>(options_.test.num_generate - 1) / seconds);
    const os::ProcessMemory memory = os::ReadProcessMemory();
    row_.peak_bytes = std::max(
        row_.peak_bytes,
        memory.anonymous_bytes + LockedMapped(memory) - log_->memory_bytes());
    return {};
  }

  // Locked pages that are not anonymous.
  uint64_t LockedMapped(const os::ProcessMemory& memory) const {
    const gguf::WeightResidency& held = model_->file().held();
    return held.lock && !held.read ? memory.locked_bytes : 0;
  }

  Result<StreamedToken> NextToken() {
    const text::TokenId token = choice_.Choose(logits_);
    const int64_t position = session_->position();
    const auto before = session_->stream_totals().generated;
    const engine::SparseTotals sparse = session_->sparse_totals();
    log_->BeginToken();
    const Stopwatch watch;
    const Status status =
        session_->Generate({&token, 1}, engine::LogitsOf::kLast, logits_);
    StreamedToken sample = {.seconds = watch.Seconds()};
    log_->EndToken();
    TC_RETURN_IF_ERROR(status);
    sample.waited_seconds = log_->tokens().back().waited_seconds;
    const auto after = session_->stream_totals().generated;
    sample.num_missed = after.num_missed - before.num_missed;
    sample.stream_bytes = after.num_bytes - before.num_bytes;
    sample.num_reads = after.num_reads - before.num_reads;
    sample.num_hits = after.num_hits - before.num_hits;
    sample.num_moves = after.num_moves - before.num_moves;
    sample.num_wasted = after.num_wasted - before.num_wasted;
    sample.move_bytes = after.num_move_bytes - before.num_move_bytes;
    const engine::SparseTotals read = session_->sparse_totals() - sparse;
    sample.memory_bytes =
        engine::KvBytesPerToken(model_->config(), options_.session, position) +
        (read.num_tokens == 0
             ? engine::WeightBytesPerToken(*model_, session_->ffn(),
                                           session_->predictor())
             : model::FixedWeightBytes(model_->weights(), 1) + read.num_bytes);
    return sample;
  }

  // What streams, and how fast that can be.
  Status Describe() {
    if (options_.host_rate) row_.rates = {.host = *options_.host_rate};
    row_.is_in_memory =
        session_->stream() == nullptr && options_.session.budget.holds_ram;
    if (session_->stream() == nullptr) return {};
    TC_ASSIGN_OR_RETURN(const engine::RuntimePlan plan,
                        engine::PlanRuntime(*model_, options_.session));
    const engine::StreamUnit unit = session_->stream()->unit();
    row_.unit = engine::NameOf(unit);
    row_.resident = ResidentShare(*model_, unit, *plan.engine.stream);
    uint64_t num_bytes = 0;
    uint64_t num_reads = 0;
    for (const StreamedToken& token : row_.tokens) {
      num_bytes += token.stream_bytes;
      num_reads += token.num_reads;
    }
    if (!row_.rates || num_reads == 0) return {};
    row_.rates->drive = MeasureDrive(
        model_->file().shard_path(0), session_->stream()->reader().name(),
        CeilDiv(num_bytes, num_reads), options_.probe_seconds);
    if (!row_.rates->drive) row_.rates.reset();
    return {};
  }

  // With the memory of the session, which would come on top, given back.
  void Replay() {
    if (row_.unit.empty()) return;
    session_.reset();
    auto replay = engine::ReplayStream(model_->file(), *log_,
                                       options_.session.open_records);
    if (replay) row_.replay = *std::move(replay);
  }

  const BudgetBenchOptions& options_;
  std::shared_ptr<storage::ReadLog> log_ = std::make_shared<storage::ReadLog>();
  engine::SessionOptions session_options_;
  std::shared_ptr<const model::Model> model_;
  GreedyChoice choice_;
  std::vector<float> logits_;
  BudgetRow row_;
  std::unique_ptr<engine::Session> session_;
};

}  // namespace

double BudgetRow::bound_seconds() const {
  if (!rates) return 0.0;
  double stream_bytes = 0.0;
  double memory_bytes = 0.0;
  for (const StreamedToken& token : tokens) {
    stream_bytes += static_cast<double>(token.stream_bytes);
    memory_bytes += static_cast<double>(token.memory_bytes);
  }
  const double host = memory_bytes / rates->host;
  return rates->drive ? std::max(stream_bytes / *rates->drive, host) : host;
}

Result<BudgetRow> RunBudgetBench(std::shared_ptr<const model::Model> model,
                                 const BudgetBenchOptions& options) {
  const std::vector<BenchPrompt> prompts =
      PromptsOr(options.prompts, options.test, model->config().vocab_size);
  TC_ASSIGN_OR_RETURN(const std::vector<PickedPrompt> picked,
                      PickPrompts(prompts, options.test,
                                  options.session.context, options.source));
  return BudgetRun(options, std::move(model)).Run(picked);
}

}  // namespace thermocline::bench

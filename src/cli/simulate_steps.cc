#include "cli/simulate_steps.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace thermocline::cli {
namespace {

using neuron::TraceLessons;
using residency::Step;
using Sets = std::vector<std::vector<uint32_t>>;

void AddAllOf(const Sets& more, Sets& sets) {
  for (size_t l = 0; l < sets.size(); ++l) {
    std::vector<uint32_t> both;
    std::ranges::set_union(sets[l], more[l], std::back_inserter(both));
    sets[l] = std::move(both);
  }
}

}  // namespace

TokenSteps::TokenSteps(neuron::TraceReader* reader, const SimulatedUnits* units,
                       bool as_run)
    : reader_(*reader), units_(*units) {
  const std::optional<neuron::TraceRun>& run = reader->header().run;
  if (as_run && run) lessons_ = run->lessons;
}

Status TokenSteps::Read() {
  if (has_token_) return {};
  TC_ASSIGN_OR_RETURN(has_token_, reader_.Next(token_, fired_));
  if (has_token_) ++num_read_;
  return {};
}

Result<std::optional<Step>> TokenSteps::Next(Sets& sets) {
  while (waiting_.empty()) {
    TC_RETURN_IF_ERROR(Read());
    if (!has_token_) return std::nullopt;
    if (!lessons_ || token_.is_generated) {
      units_.MapToken(reader_, fired_, sets);
      has_token_ = false;
      return Step::kPass;
    }
    TC_RETURN_IF_ERROR(ReadPass());
  }
  sets = std::move(waiting_.front());
  waiting_.pop_front();
  return *lessons_ == TraceLessons::kRows ? Step::kLesson : Step::kUncounted;
}

Status TokenSteps::ReadPass() {
  do {
    AddRow();
    has_token_ = false;
    TC_RETURN_IF_ERROR(Read());
  } while (has_token_ && token_.is_together && !token_.is_generated);
  return {};
}

void TokenSteps::AddRow() {
  if (*lessons_ == TraceLessons::kNone) return;
  const bool is_row = *lessons_ == TraceLessons::kRows;
  Sets sets;
  // A prompt that computes all neurons tells of those that fire.
  units_.MapToken(reader_, fired_, sets, /*only_fired=*/is_row);
  if (is_row || waiting_.empty()) {
    waiting_.push_back(std::move(sets));
  } else {
    AddAllOf(sets, waiting_.back());
  }
  if (waiting_.size() > neuron::kTraceLessonRows) waiting_.pop_front();
}

}  // namespace thermocline::cli

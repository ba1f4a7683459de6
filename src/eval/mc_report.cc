#include "eval/mc_report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "base/quote.h"
#include "base/units.h"

namespace thermocline::eval {
namespace {

using OrderedJson = nlohmann::ordered_json;
using Picks = std::vector<size_t>;

Picks PicksOf(const McTask& task, const McRun& run, bool normalised) {
  TC_CHECK(run.scores.size() == task.items.size());
  Picks picks;
  for (size_t i = 0; i < task.items.size(); ++i) {
    picks.push_back(normalised ? PickNormalised(task.items[i], run.scores[i])
                               : Pick(run.scores[i]));
  }
  return picks;
}

Share AccuracyOf(const McTask& task, const Picks& picks) {
  int64_t num_right = 0;
  for (size_t i = 0; i < picks.size(); ++i) {
    if (picks[i] == task.items[i].gold) ++num_right;
  }
  return MakeShare(num_right, static_cast<int64_t>(picks.size()));
}

McChange ChangeOf(const McTask& task, const Picks& before, const Picks& after) {
  McChange change;
  for (size_t i = 0; i < after.size(); ++i) {
    if (before[i] == after[i]) continue;
    ++change.changed;
    if (before[i] == task.items[i].gold) ++change.lost;
    if (after[i] == task.items[i].gold) ++change.gained;
  }
  const double n = static_cast<double>(after.size());
  const double num_moved = static_cast<double>(change.gained + change.lost);
  change.difference = static_cast<double>(change.gained - change.lost) / n;
  // Each item differs by -1, 0 or 1.
  change.error =
      std::sqrt((num_moved / n - change.difference * change.difference) / n);
  return change;
}

std::string Percent(const Share& share) {
  return fmt::format("{:.2f} ± {:.2f} ({:.2f} to {:.2f})", 100 * share.value,
                     100 * share.error, 100 * share.low, 100 * share.high);
}

// `±` is two bytes and one column.
std::string TableRow(const std::string& mode, const std::string& score,
                     const std::string& value) {
  return fmt::format("| {:<8} | {:<10} | {:<32} |\n", mode, score, value);
}

std::string ChangeLine(const std::string& first, const McModeReport& mode,
                       const McChange& change, const char* score,
                       int64_t num_items) {
  return fmt::format(
      "{} against {}, {}: {:+.2f} ± {:.2f} points; {} of {} picks changed, {} "
      "right to wrong, {} wrong to right\n",
      mode.mode, first, score, 100 * change.difference, 100 * change.error,
      change.changed, num_items, change.lost, change.gained);
}

std::string FormatTable(const McReport& report) {
  std::string out = TableRow("mode", "score", "accuracy in % (95 % interval)");
  out += fmt::format("|{0:-<10}|{0:-<12}|{0:-<34}|\n", "");
  std::string changes;
  for (const McModeReport& mode : report.modes) {
    out += TableRow(mode.mode, "acc", Percent(mode.accuracy));
    out += TableRow(mode.mode, "acc_norm", Percent(mode.accuracy_norm));
    if (!mode.change.has_value()) continue;
    const std::string& first = report.modes.front().mode;
    changes += ChangeLine(first, mode, *mode.change, "acc", report.num_items) +
               ChangeLine(first, mode, *mode.change_norm, "acc_norm",
                          report.num_items);
  }
  out +=
      fmt::format("{}, {}, {} in front; guessing: {:.2f}\n",
                  Plural(report.num_items, "item"), report.schema,
                  Plural(report.num_examples, "example"), 100 * report.guess);
  return out + changes;
}

OrderedJson JsonOf(const std::optional<McChange>& change) {
  if (!change.has_value()) return nullptr;
  return {{"changed", change->changed},
          {"lost", change->lost},
          {"gained", change->gained},
          {"difference", change->difference},
          {"difference_error", change->error}};
}

std::string FormatJson(const McReport& report) {
  OrderedJson modes = OrderedJson::array();
  for (const McModeReport& mode : report.modes) {
    const Share& acc = mode.accuracy;
    const Share& norm = mode.accuracy_norm;
    modes.push_back({{"mode", mode.mode},
                     {"acc", acc.value},
                     {"acc_error", acc.error},
                     {"acc_low", acc.low},
                     {"acc_high", acc.high},
                     {"acc_norm", norm.value},
                     {"acc_norm_error", norm.error},
                     {"acc_norm_low", norm.low},
                     {"acc_norm_high", norm.high},
                     {"change", JsonOf(mode.change)},
                     {"change_norm", JsonOf(mode.change_norm)}});
  }
  const OrderedJson json = {
      {"file", report.path},       {"schema", report.schema},
      {"items", report.num_items}, {"examples", report.num_examples},
      {"guess", report.guess},     {"modes", modes}};
  // Paths are any bytes; JSON is UTF-8.
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

std::string CsvOf(const std::optional<McChange>& change) {
  if (!change.has_value()) return ",,,,";
  return fmt::format("{},{},{},{:.6f},{:.6f}", change->changed, change->lost,
                     change->gained, change->difference, change->error);
}

std::string CsvOf(const Share& share) {
  return fmt::format("{:.6f},{:.6f},{:.6f},{:.6f}", share.value, share.error,
                     share.low, share.high);
}

std::string FormatCsv(const McReport& report) {
  const std::string file = QuoteCsv(report.path);
  std::string out =
      "file,schema,items,examples,guess,mode,acc,acc_error,acc_low,acc_high,"
      "acc_norm,acc_norm_error,acc_norm_low,acc_norm_high,changed,lost,gained,"
      "difference,difference_error,norm_changed,norm_lost,norm_gained,"
      "norm_difference,norm_difference_error\n";
  for (const McModeReport& mode : report.modes) {
    out +=
        fmt::format("{},{},{},{},{:.6f},{},{},{},{},{}\n", file, report.schema,
                    report.num_items, report.num_examples, report.guess,
                    mode.mode, CsvOf(mode.accuracy), CsvOf(mode.accuracy_norm),
                    CsvOf(mode.change), CsvOf(mode.change_norm));
  }
  return out;
}

}  // namespace

size_t Pick(const McScores& scores) {
  return static_cast<size_t>(std::ranges::max_element(scores) - scores.begin());
}

size_t PickNormalised(const McItem& item, const McScores& scores) {
  McScores normalised;
  for (size_t i = 0; i < scores.size(); ++i) {
    normalised.push_back(
        scores[i] / static_cast<double>(NumScoredBytes(item.continuations[i])));
  }
  return Pick(normalised);
}

McReport MakeMcReport(const McTask& task, int64_t num_examples,
                      const std::vector<McRun>& runs) {
  TC_CHECK(!runs.empty());
  Moments guess;
  for (const McItem& item : task.items) {
    guess.Add(1.0 / static_cast<double>(item.continuations.size()));
  }
  McReport report = {.path = task.path,
                     .schema = task.schema,
                     .num_items = static_cast<int64_t>(task.items.size()),
                     .num_examples = num_examples,
                     .guess = guess.mean()};
  const Picks first = PicksOf(task, runs.front(), false);
  const Picks first_norm = PicksOf(task, runs.front(), true);
  for (const McRun& run : runs) {
    const Picks picks = PicksOf(task, run, false);
    const Picks picks_norm = PicksOf(task, run, true);
    McModeReport mode = {.mode = run.mode,
                         .accuracy = AccuracyOf(task, picks),
                         .accuracy_norm = AccuracyOf(task, picks_norm)};
    if (&run != &runs.front()) {
      mode.change = ChangeOf(task, first, picks);
      mode.change_norm = ChangeOf(task, first_norm, picks_norm);
    }
    report.modes.push_back(std::move(mode));
  }
  return report;
}

std::string FormatMcReport(const McReport& report, McFormat format) {
  switch (format) {
    case McFormat::kTable:
      return FormatTable(report);
    case McFormat::kCsv:
      return FormatCsv(report);
    case McFormat::kJson:
      return FormatJson(report);
  }
  return {};
}

std::string FormatMcItem(const McTask& task, const McTokens& tokens,
                         const std::vector<McRun>& runs, size_t idx) {
  const McItem& item = task.items[idx];
  OrderedJson num_bytes = OrderedJson::array();
  OrderedJson num_tokens = OrderedJson::array();
  for (size_t i = 0; i < item.continuations.size(); ++i) {
    num_bytes.push_back(NumScoredBytes(item.continuations[i]));
    num_tokens.push_back(tokens.continuations[i].size());
  }
  OrderedJson modes = OrderedJson::object();
  for (const McRun& run : runs) {
    const McScores& scores = run.scores[idx];
    modes[run.mode] = {{"log_probs", scores},
                       {"pick", Pick(scores)},
                       {"pick_norm", PickNormalised(item, scores)}};
  }
  const OrderedJson json = {{"line", item.line},
                            {"gold", item.gold},
                            {"bytes", num_bytes},
                            {"tokens", num_tokens},
                            {"modes", modes}};
  return json.dump();
}

}  // namespace thermocline::eval

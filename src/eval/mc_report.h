// What the scores of multiple-choice items say: accuracy of each mode, and what
// a mode changes.
#ifndef THERMOCLINE_EVAL_MC_REPORT_H_
#define THERMOCLINE_EVAL_MC_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "eval/mc_encode.h"
#include "eval/mc_score.h"
#include "eval/mc_task.h"
#include "eval/statistics.h"

namespace thermocline::eval {

// What was measured: a name, and the scores of all items.
struct McRun {
  std::string mode;
  std::vector<McScores> scores;
};

// The choice with the highest score, the first of equal ones; and the same with
// each score divided by NumScoredBytes.
size_t Pick(const McScores& scores);
size_t PickNormalised(const McItem& item, const McScores& scores);

// One way to pick, in two modes: of how many items the pick changed, and how
// many went from right to wrong and from wrong to right.
struct McChange {
  int64_t changed = 0, lost = 0, gained = 0;
  double difference;  // of the accuracies, (gained - lost) / items
  double error;       // its standard error, items paired
};

struct McModeReport {
  std::string mode;
  Share accuracy, accuracy_norm;
  std::optional<McChange> change, change_norm;  // against the first; it: none
};

struct McReport {
  std::string path, schema;
  int64_t num_items;
  int64_t num_examples;  // in front of each context
  double guess;          // accuracy of guessing: mean of 1 / choices
  std::vector<McModeReport> modes;
};

// Requires at least one run, each with scores of all items (CHECKed).
McReport MakeMcReport(const McTask& task, int64_t num_examples,
                      const std::vector<McRun>& runs);

enum class McFormat { kTable, kCsv, kJson };

// Each ends with a line end. Table: percent. CSV: a line for each mode, all
// else shares. JSON: one object.
std::string FormatMcReport(const McReport& report, McFormat format);

// One JSON object for item `idx`, without a line end.
std::string FormatMcItem(const McTask& task, const McTokens& tokens,
                         const std::vector<McRun>& runs, size_t idx);

}  // namespace thermocline::eval

#endif  // THERMOCLINE_EVAL_MC_REPORT_H_

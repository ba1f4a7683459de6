// Multiple-choice task files: one JSON record per line, in one of the schemas
// of docs/eval.md, made into contexts and continuations to score.
#ifndef THERMOCLINE_EVAL_MC_TASK_H_
#define THERMOCLINE_EVAL_MC_TASK_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace thermocline::eval {

inline constexpr size_t kMaxMcLineBytes = size_t{1} << 20;
inline constexpr int kMaxMcJsonDepth = 16;
inline constexpr size_t kMaxMcChoices = 100;

// One question. A choice's text is contexts[i] + continuations[i], of which the
// continuation is scored; it begins with the white space between the two.
struct McItem {
  int64_t line = 0;                        // in the file, from 1
  size_t gold = 0;                         // the right choice
  std::vector<std::string> contexts;       // one for all choices, or one each
  std::vector<std::string> continuations;  // one for each choice, at least two

  const std::string& context(size_t choice) const {
    return contexts[contexts.size() == 1 ? 0 : choice];
  }
};

// Bytes of a continuation without the white space in front: what the
// length-normalised score divides by. At least 1.
size_t NumScoredBytes(std::string_view continuation);

struct McTask {
  std::string path;
  std::string schema;         // its fields: "query/choices/gold"
  std::vector<McItem> items;  // at least one
};

// Reads `text`, the bytes of the file `path`; the first record decides on the
// schema, all must have it. Blank lines, CR before the line end and a UTF-8
// byte order mark that the file begins with are skipped; fields that the schema
// does not know are ignored. Stops behind `max_items` if that is not 0.
// kCorrupt, naming path, line and field: not JSON, not UTF-8, a key twice, a
// line or nesting past the limits above, a field that is missing, blank or of
// another type, fewer than two choices, an index of none of them; no records.
// kUnsupported: a first record of no known schema, its fields are named.
Result<McTask> ParseMcTask(std::string_view text, const std::string& path,
                           size_t max_items = 0);

// The items with their right choice, one after the other, each followed by an
// empty line: to stand in front of a context as solved examples.
std::string FormatExamples(const McTask& task);

}  // namespace thermocline::eval

#endif  // THERMOCLINE_EVAL_MC_TASK_H_

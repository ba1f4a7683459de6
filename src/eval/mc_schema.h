// The schemas of multiple-choice records: what each field means, and the prompt
// that a record becomes.
#ifndef THERMOCLINE_EVAL_MC_SCHEMA_H_
#define THERMOCLINE_EVAL_MC_SCHEMA_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/status.h"
#include "eval/mc_task.h"

namespace thermocline::eval {

// What may stand around a prompt's parts.
inline constexpr std::string_view kWhiteSpace = " \t\r\n\f\v";

struct McSchema {
  std::string name;  // its fields: "query/choices/gold"
  // `record` has all fields of the schema. kCorrupt: one of them is wrong.
  Result<McItem> (*read)(const nlohmann::json& record);
};

// The schema whose fields `record`, an object, has, or has all but labels that
// may be in a file of their own, which ReadMcItem then tells. kUnsupported:
// none; names the fields there are, and the schemas.
Result<const McSchema*> FindMcSchema(const nlohmann::json& record);

// The item of a record, its line left 0. kCorrupt: a field is missing or wrong.
Result<McItem> ReadMcItem(const McSchema& schema, const nlohmann::json& record);

}  // namespace thermocline::eval

#endif  // THERMOCLINE_EVAL_MC_SCHEMA_H_

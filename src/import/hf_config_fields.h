// What the readers of config.json share, whatever the family.
#ifndef THERMOCLINE_IMPORT_HF_CONFIG_FIELDS_H_
#define THERMOCLINE_IMPORT_HF_CONFIG_FIELDS_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "base/status.h"
#include "import/hf_config.h"
#include "import/json.h"

namespace thermocline::importer {

// The largest value of a count or an id.
inline constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();

// The name that the file uses for a thing that has two; `name` if it uses none.
const char* KeyInUse(const JsonFields& fields, const char* name,
                     const char* older_name);

// kUnsupported, naming the key, unless it is absent or has this value.
Status RequireFlag(const JsonFields& fields, const char* key, bool value);

// kUnsupported if "partial_rotary_factor" is not 1.
Status RefusePartialRotation(const JsonFields& fields);

// Sets rotated_width to the share of head_width that the rotary embedding asks
// for. kCorrupt: no whole number of pairs.
Status CompleteRotation(const JsonFields& fields, HfConfig& config);

// Checks that the heads divide the width, or each other, and that no product of
// them overflows; fills in head_width where it is 0. Requires width, num_heads
// and num_kv_heads >= 1. `heads_key` and `kv_heads_key` are for messages.
Status CompleteHeads(const JsonFields& fields, const char* heads_key,
                     const char* kv_heads_key, HfConfig& config);

// An activation and its threshold. `fallback` is what an absent key means;
// null: it must be there.
Status ReadActivation(const JsonFields& fields, const char* key,
                      const char* fallback, HfConfig& config);

// From 0 to 1. `fallback` likewise.
Result<double> ReadEpsilon(const JsonFields& fields, const char* key,
                           std::optional<double> fallback);

}  // namespace thermocline::importer

#endif  // THERMOCLINE_IMPORT_HF_CONFIG_FIELDS_H_

// model.safetensors.index.json: which file each tensor is in.
#ifndef THERMOCLINE_IMPORT_SHARD_INDEX_H_
#define THERMOCLINE_IMPORT_SHARD_INDEX_H_

#include <map>
#include <string>
#include <string_view>

#include "base/status.h"

namespace thermocline::importer {

// File names by tensor. A shard lies beside its index: anything but a plain
// name could read files elsewhere and is kCorrupt, as are files without a map.
Result<std::map<std::string, std::string>> ParseShardIndex(
    std::string_view text, const std::string& path);

}  // namespace thermocline::importer

#endif  // THERMOCLINE_IMPORT_SHARD_INDEX_H_

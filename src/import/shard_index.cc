#include "import/shard_index.h"

#include "base/quote.h"
#include "import/json.h"

namespace thermocline::importer {
namespace {

bool IsPlainName(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

}  // namespace

Result<std::map<std::string, std::string>> ParseShardIndex(
    std::string_view text, const std::string& path) {
  TC_ASSIGN_OR_RETURN(const Json index, ParseJson(text, path));
  TC_ASSIGN_OR_RETURN(const auto fields, JsonFields::Of(index, path));
  const Json* map = fields.Find("weight_map");
  if (map == nullptr || !map->is_object() || map->empty()) {
    return fields.Wrong("weight_map", "must list the tensors");
  }
  std::map<std::string, std::string> shards;
  for (const auto& [tensor, shard] : map->items()) {
    const auto* name = shard.get_ptr<const Json::string_t*>();
    if (name == nullptr || !IsPlainName(*name)) {
      return fields.Wrong(
          "weight_map",
          fmt::format("has no plain file name for tensor {}", Quote(tensor)));
    }
    shards.emplace(tensor, *name);
  }
  return shards;
}

}  // namespace thermocline::importer

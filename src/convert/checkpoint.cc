#include "convert/checkpoint.h"

#include <filesystem>
#include <set>
#include <utility>

#include "base/quote.h"
#include "base/units.h"
#include "convert/json.h"
#include "os/file.h"

namespace thermocline::convert {
namespace {

constexpr uint64_t kMaxIndexBytes = 256 * kMiB;

// A shard lies beside its index; anything else could read files elsewhere.
bool IsPlainName(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

}  // namespace

Status Checkpoint::AddFile(const std::string& path) {
  TC_ASSIGN_OR_RETURN(auto file, SafetensorsFile::Open(path));
  // The tensors stay where they are when the file object moves.
  for (const SafeTensor& tensor : file.tensors()) {
    if (!tensors_.emplace(tensor.name, &tensor).second) {
      return Fail(ErrorCode::kCorrupt, "{}: tensor {} is in another file too",
                  path, Quote(tensor.name));
    }
  }
  files_.push_back(std::move(file));
  return {};
}

Status Checkpoint::AddShards(const std::string& folder,
                             const std::string& index_path) {
  TC_ASSIGN_OR_RETURN(const auto text,
                      os::ReadFile(index_path, kMaxIndexBytes));
  TC_ASSIGN_OR_RETURN(const Json index, ParseJson(text, index_path));
  TC_ASSIGN_OR_RETURN(const auto fields, JsonFields::Of(index, index_path));
  const Json* map = fields.Find("weight_map");
  if (map == nullptr || !map->is_object() || map->empty()) {
    return fields.Wrong("weight_map", "must list the tensors");
  }
  std::set<std::string> names;
  for (const auto& [tensor, shard] : map->items()) {
    const auto* name = shard.get_ptr<const Json::string_t*>();
    if (name == nullptr || !IsPlainName(*name)) {
      return fields.Wrong(
          "weight_map",
          fmt::format("has no plain file name for tensor {}", Quote(tensor)));
    }
    names.insert(*name);
  }
  for (const std::string& name : names) {
    TC_RETURN_IF_ERROR(AddFile((std::filesystem::path(folder) / name)));
  }
  for (const auto& [tensor, shard] : map->items()) {
    if (Find(tensor) == nullptr) {
      return Fail(ErrorCode::kCorrupt, "{}: tensor {} is not in {}", index_path,
                  Quote(tensor), Quote(shard.get<std::string>()));
    }
  }
  return {};
}

Result<Checkpoint> Checkpoint::Open(const std::string& folder) {
  const std::filesystem::path root = folder;
  const std::string single = root / "model.safetensors";
  const std::string index = root / "model.safetensors.index.json";
  std::error_code ignored;
  Checkpoint checkpoint;
  if (std::filesystem::exists(single, ignored)) {
    TC_RETURN_IF_ERROR(checkpoint.AddFile(single));
  } else if (std::filesystem::exists(index, ignored)) {
    TC_RETURN_IF_ERROR(checkpoint.AddShards(folder, index));
  } else {
    return Fail(ErrorCode::kNotFound,
                "{}: neither model.safetensors nor model.safetensors.index."
                "json is in this folder (weights in another format?)",
                folder);
  }
  return checkpoint;
}

const SafeTensor* Checkpoint::Find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : found->second;
}

}  // namespace thermocline::convert

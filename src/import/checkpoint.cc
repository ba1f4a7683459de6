#include "import/checkpoint.h"

#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "base/quote.h"
#include "base/units.h"
#include "import/lfs_pointer.h"
#include "import/shard_index.h"
#include "os/file.h"

namespace thermocline::importer {
namespace {

constexpr uint64_t kMaxIndexBytes = 256 * kMiB;

// Weights as PyTorch pickles them, or in other forms, under the names that
// people meet; null if none is there.
const char* FindOtherWeights(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const char* name : {"pytorch_model.bin", "pytorch_model.bin.index.json",
                           "consolidated.00.pth", "consolidated.safetensors",
                           "tf_model.h5", "flax_model.msgpack"}) {
    if (std::filesystem::exists(folder / name, ignored)) return name;
  }
  return nullptr;
}

// A shard has the tensors that the index says, no fewer and no more.
Status CheckShard(const SafetensorsFile& shard,
                  const std::set<std::string>& names,
                  const std::string& index_path) {
  std::set<std::string> missing = names;
  const std::string* extra = nullptr;
  for (const SafeTensor& tensor : shard.tensors()) {
    if (missing.erase(tensor.name) == 0) extra = &tensor.name;
  }
  if (!missing.empty()) {
    return Fail(ErrorCode::kCorrupt,
                "{}: tensor {} is missing; {} says that it is in this file",
                shard.path(), Quote(*missing.begin()), index_path);
  }
  if (extra == nullptr) return {};
  return Fail(ErrorCode::kCorrupt,
              "{}: tensor {} is in this file; {} does not say so", shard.path(),
              Quote(*extra), index_path);
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
  TC_RETURN_IF_ERROR(CheckDownloaded(text, index_path));
  TC_ASSIGN_OR_RETURN(const auto shards, ParseShardIndex(text, index_path));
  std::map<std::string, std::set<std::string>> by_shard;
  for (const auto& [tensor, shard] : shards) by_shard[shard].insert(tensor);
  for (const auto& [shard, names] : by_shard) {
    const std::string path = std::filesystem::path(folder) / shard;
    TC_RETURN_IF_ERROR(AddFile(path));
    TC_RETURN_IF_ERROR(CheckShard(files_.back(), names, index_path));
  }
  return {};
}

Result<Checkpoint> Checkpoint::Open(const std::string& folder) {
  const std::filesystem::path root = folder;
  const std::string single = root / "model.safetensors";
  const std::string index = root / "model.safetensors.index.json";
  Checkpoint checkpoint;
  if (os::HasEntry(single)) {
    TC_RETURN_IF_ERROR(checkpoint.AddFile(single));
  } else if (os::HasEntry(index)) {
    TC_RETURN_IF_ERROR(checkpoint.AddShards(folder, index));
  } else {
    const char* other = FindOtherWeights(root);
    return Fail(ErrorCode::kNotFound,
                "{}: neither model.safetensors nor model.safetensors.index."
                "json is in this folder{}",
                folder,
                other == nullptr
                    ? std::string()
                    : fmt::format("; {} is, which cannot be read: download the "
                                  "safetensors files, or save the model as "
                                  "such",
                                  other));
  }
  return checkpoint;
}

const SafeTensor* Checkpoint::Find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : found->second;
}

}  // namespace thermocline::importer

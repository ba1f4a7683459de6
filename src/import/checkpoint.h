// All tensors of a Hugging Face folder, from one safetensors file or many.
#ifndef THERMOCLINE_IMPORT_CHECKPOINT_H_
#define THERMOCLINE_IMPORT_CHECKPOINT_H_

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "import/safetensors.h"

namespace thermocline::importer {

// Immutable; the views are good as long as it lives.
class Checkpoint {
 public:
  // model.safetensors, or the shards that model.safetensors.index.json names.
  // kNotFound: neither (weights in another format are named), or a shard is
  // missing; kCorrupt: a shard outside the folder, a tensor that is in two
  // shards, or not in the one that the index names; and the errors of
  // SafetensorsFile.
  static Result<Checkpoint> Open(const std::string& folder);

  // Null if absent.
  const SafeTensor* Find(const std::string& name) const;
  // By name.
  const std::map<std::string, const SafeTensor*>& tensors() const {
    return tensors_;
  }

 private:
  Status AddFile(const std::string& path);
  Status AddShards(const std::string& folder, const std::string& index_path);

  std::vector<SafetensorsFile> files_;
  std::map<std::string, const SafeTensor*> tensors_;
};

}  // namespace thermocline::importer

#endif  // THERMOCLINE_IMPORT_CHECKPOINT_H_

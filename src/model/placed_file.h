// A file some of whose tensors lie elsewhere in memory.
#ifndef THERMOCLINE_MODEL_PLACED_FILE_H_
#define THERMOCLINE_MODEL_PLACED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "gguf/gguf.h"

namespace thermocline::model {

// All of `file`, which outlives it, but that tensors without data have theirs
// where address_of says.
class PlacedFile final : public gguf::File {
 public:
  PlacedFile(const gguf::File& file,
             const std::function<const std::byte*(const gguf::TensorInfo&)>&
                 address_of)
      : file_(file), tensors_(file.tensors().begin(), file.tensors().end()) {
    for (gguf::TensorInfo& tensor : tensors_) {
      if (tensor.data == nullptr) tensor.data = address_of(tensor);
    }
  }

  Status Hold(const gguf::WeightResidency&, const ProgressFn&) override {
    TC_CHECK(false);
    return {};
  }
  const gguf::WeightResidency& held() const override { return file_.held(); }
  const std::string& path() const override { return file_.path(); }
  gguf::Container container() const override { return file_.container(); }
  uint32_t version() const override { return file_.version(); }
  uint64_t num_file_bytes() const override { return file_.num_file_bytes(); }
  int num_shards() const override { return file_.num_shards(); }
  std::string shard_path(uint32_t shard_idx) const override {
    return file_.shard_path(shard_idx);
  }
  std::optional<os::FileIdentity> shard_identity(
      uint32_t shard_idx) const override {
    return file_.shard_identity(shard_idx);
  }
  std::span<const gguf::KeyValue> metadata() const override {
    return file_.metadata();
  }
  std::span<const gguf::TensorInfo> tensors() const override {
    return tensors_;
  }
  const gguf::KeyValue* Find(std::string_view key) const override {
    return file_.Find(key);
  }
  const gguf::TensorInfo* FindTensor(std::string_view name) const override {
    const gguf::TensorInfo* found = file_.FindTensor(name);
    return found == nullptr
               ? nullptr
               : &tensors_[static_cast<size_t>(found - file_.tensors().data())];
  }

 private:
  const gguf::File& file_;
  std::vector<gguf::TensorInfo> tensors_;
};

}  // namespace thermocline::model

#endif  // THERMOCLINE_MODEL_PLACED_FILE_H_

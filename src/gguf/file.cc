// gguf::File over mapped files or memory: opening, joining shards, lookup,
// moving from one to the other.

#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/math.h"
#include "base/quote.h"
#include "gguf/gguf.h"
#include "gguf/node_plan.h"
#include "gguf/parse.h"
#include "gguf/split.h"
#include "os/file.h"
#include "os/memory.h"
#include "os/memory_policy.h"
#include "os/topology.h"

namespace thermocline::gguf {
namespace {

// Of tensors that are read without their neighbours: of a cache line, and of
// every type.
constexpr uint64_t kKeptAlignment = 64;

// One file's bytes: mapped or, once read, in memory.
struct Storage {
  os::MappedFile map;
  os::AlignedBuffer buffer;

  std::span<const std::byte> bytes() const {
    if (buffer.size() > 0) return {buffer.data(), buffer.size()};
    return map.bytes();
  }
};

class FileImpl : public File {
 public:
  explicit FileImpl(std::string path) : path_(std::move(path)) {}

  const std::string& path() const override { return path_; }
  Container container() const override { return container_; }
  uint32_t version() const override { return version_; }
  uint64_t num_file_bytes() const override { return num_file_bytes_; }
  int num_shards() const override { return num_shards_; }
  std::string shard_path(uint32_t shard_idx) const override {
    TC_CHECK(std::cmp_less(shard_idx, num_shards_));
    const auto number = static_cast<int>(shard_idx) + 1;
    return number == 1
               ? path_
               : ShardPath(ParseShardName(path_)->prefix, number, num_shards_);
  }
  std::optional<os::FileIdentity> shard_identity(
      uint32_t shard_idx) const override {
    TC_CHECK(std::cmp_less(shard_idx, num_shards_));
    if (identities_.empty()) return std::nullopt;
    return identities_[shard_idx];
  }
  std::span<const KeyValue> metadata() const override { return metadata_; }
  std::span<const TensorInfo> tensors() const override { return tensors_; }

  const KeyValue* Find(std::string_view key) const override {
    const auto it = key_index_.find(key);
    return it == key_index_.end() ? nullptr : &metadata_[it->second];
  }
  const TensorInfo* FindTensor(std::string_view name) const override {
    const auto it = tensor_index_.find(name);
    return it == tensor_index_.end() ? nullptr : &tensors_[it->second];
  }

  // Takes over the first, or only, file: its metadata is the model's.
  Status AddFirst(std::span<const std::byte> bytes) {
    auto parsed = ParseFile(bytes);
    if (!parsed) return Annotate(path_, parsed.error());
    container_ = parsed->container;
    version_ = parsed->version;
    num_file_bytes_ = bytes.size();
    num_shards_ = 1;
    metadata_ = std::move(parsed->metadata);
    tensors_ = std::move(parsed->tensors);
    auto index = IndexKeys(metadata_);
    if (!index) return Annotate(path_, index.error());
    key_index_ = std::move(*index);
    return {};
  }

  Status MapFirst() {
    TC_ASSIGN_OR_RETURN(os::MappedFile map, os::MappedFile::Open(path_));
    TC_RETURN_IF_ERROR(AddFirst(map.bytes()));
    identities_.push_back(map.identity());
    shards_.push_back({.map = std::move(map)});
    return {};
  }

  Status Hold(const WeightResidency& options,
              const ProgressFn& progress) override;
  const WeightResidency& held() const override { return held_; }

  Status AddOwned(os::AlignedBuffer bytes) {
    owned_ = std::move(bytes);
    return AddFirst({owned_.data(), owned_.size()});
  }

  // Maps the other shards if the metadata says that there are any.
  Status MapOtherShards();

  // To be called once, when all tensors are there.
  Status IndexAllTensors() {
    auto index = IndexTensors(tensors_);
    if (!index) return Annotate(path_, index.error());
    tensor_index_ = std::move(*index);
    return {};
  }

 private:
  Status CheckIsFirst() const;
  Status MapShard(const std::string& path, int shard_idx, int count);
  Status ReadShard(int shard_idx, const ProgressFn& progress);
  Status ReadKept(const std::vector<std::string>& left_out,
                  const ProgressFn& progress);
  Status LockShards(const ProgressFn& progress) const;

  std::string path_;
  std::vector<Storage> shards_;  // none where there is memory without a file
  std::vector<os::FileIdentity> identities_;  // of them, once mapped
  os::AlignedBuffer owned_;  // without, if it is not somebody else's
  WeightResidency held_;
  Container container_ = Container::kGguf;
  uint32_t version_ = 0;
  uint64_t num_file_bytes_ = 0;
  int num_shards_ = 0;
  std::vector<KeyValue> metadata_;
  std::vector<TensorInfo> tensors_;
  NameIndex key_index_;
  NameIndex tensor_index_;
};

Status FileImpl::CheckIsFirst() const {
  TC_ASSIGN_OR_RETURN(const auto split_no, Int("split.no"));
  if (!split_no || *split_no == 0) return {};
  const auto name = ParseShardName(path_);
  return Fail(ErrorCode::kInvalidArgument,
              "{}: a part of a split model but not its first (split.no is {}); "
              "open the first instead{}",
              path_, *split_no,
              name ? ": " + ShardPath(name->prefix, 1, name->count) : "");
}

Status FileImpl::MapOtherShards() {
  TC_ASSIGN_OR_RETURN(const auto split_count, Int("split.count"));
  TC_RETURN_IF_ERROR(CheckIsFirst());
  // Splits that were joined to one file say 0.
  if (!split_count || *split_count == 0 || *split_count == 1) return {};
  if (*split_count < 0 || *split_count > kMaxShards) {
    return Fail(ErrorCode::kCorrupt,
                "{}: key \"split.count\" is {}; 0 to {} are possible", path_,
                *split_count, kMaxShards);
  }
  const int count = static_cast<int>(*split_count);
  const auto name = ParseShardName(path_);
  if (!name || name->number != 1 || name->count != count) {
    return Fail(ErrorCode::kCorrupt,
                "{}: the first of {} files of a split model must be named "
                "PREFIX-00001-of-{:05d}.gguf (was it renamed?)",
                path_, count, count);
  }
  TC_ASSIGN_OR_RETURN(const auto num_tensors, Int("split.tensors.count"));
  if (!num_tensors) {
    return Fail(ErrorCode::kCorrupt,
                "{}: key \"split.tensors.count\" is missing from a split model",
                path_);
  }
  for (int i = 1; i < count; ++i) {
    TC_RETURN_IF_ERROR(
        MapShard(ShardPath(name->prefix, i + 1, count), i, count));
  }
  if (std::cmp_not_equal(*num_tensors, tensors_.size())) {
    return Fail(ErrorCode::kCorrupt,
                "{}: key \"split.tensors.count\" is {}, but the {} files hold "
                "{} tensors",
                path_, *num_tensors, count, tensors_.size());
  }
  return {};
}

Status FileImpl::MapShard(const std::string& path, int shard_idx, int count) {
  auto map = os::MappedFile::Open(path);
  if (!map) {
    return Fail(map.error().code, "{}: part {} of {} cannot be opened: {}",
                path_, shard_idx + 1, count, map.error().message);
  }
  // A File of its own for the typed access to its metadata, which is dropped.
  FileImpl shard(path);
  TC_RETURN_IF_ERROR(shard.AddFirst(map->bytes()));
  TC_ASSIGN_OR_RETURN(const auto split_no, shard.Int("split.no"));
  TC_ASSIGN_OR_RETURN(const auto split_count, shard.Int("split.count"));
  if (split_no != shard_idx || split_count != count) {
    return Fail(ErrorCode::kCorrupt,
                "{}: split.no is {} and split.count is {}, but the name says "
                "{} and {} (files of different models mixed up?)",
                path, split_no ? std::to_string(*split_no) : "missing",
                split_count ? std::to_string(*split_count) : "missing",
                shard_idx, count);
  }
  if (shard.container() != container_) {
    return Fail(ErrorCode::kCorrupt,
                "{}: a {} file, but the first part is {} (files of different "
                "models mixed up?)",
                path, NameOf(shard.container()), NameOf(container_));
  }
  num_file_bytes_ += map->bytes().size();
  ++num_shards_;
  for (TensorInfo& info : shard.tensors_) {
    info.shard_idx = static_cast<uint32_t>(shard_idx);
    tensors_.push_back(std::move(info));
  }
  identities_.push_back(map->identity());
  shards_.push_back({.map = std::move(*map)});
  return {};
}

// The same with what was done for the files before counted.
ProgressFn Beyond(const ProgressFn& progress, uint64_t num_before,
                  uint64_t num_total) {
  if (!progress) return {};
  return [&progress, num_before, num_total](std::string_view what,
                                            uint64_t num_done, uint64_t) {
    progress(what, num_before + num_done, num_total);
  };
}

Status FileImpl::Hold(const WeightResidency& options,
                      const ProgressFn& progress) {
  if (shards_.empty()) return {};
  if (options.read && !options.left_out.empty()) {
    TC_RETURN_IF_ERROR(ReadKept(options.left_out, progress));
    held_.read = true;
    held_.left_out = options.left_out;
  } else if (options.read) {
    uint64_t num_before = 0;
    for (int i = 0; i < num_shards_; ++i) {
      TC_RETURN_IF_ERROR(
          ReadShard(i, Beyond(progress, num_before, num_file_bytes_)));
      num_before += shards_[static_cast<size_t>(i)].bytes().size();
    }
    held_.read = true;
  }
  if (options.lock) {
    const Status locked = LockShards(progress);
    held_.lock = locked.has_value();
    if (!locked) {
      LogWarning("{}: {}; going on without", path_, locked.error().message);
    }
  }
  return {};
}

Status FileImpl::ReadShard(int shard_idx, const ProgressFn& progress) {
  Storage& shard = shards_[static_cast<size_t>(shard_idx)];
  const std::span<const std::byte> mapped = shard.map.bytes();
  auto allocated = os::AlignedBuffer::Allocate(mapped.size());
  if (!allocated) return Annotate(shard.map.path(), allocated.error());
  const std::span<std::byte> buffer(allocated->data(), mapped.size());
  // Pages come from the node that holds when they are touched first.
  PlaceOnNodes(PlanNodes(tensors_, shard_idx, mapped, os::ReadTopology()),
               buffer);
  TC_RETURN_IF_ERROR(shard.map.ReadInto(buffer, progress));
  for (TensorInfo& info : tensors_) {
    if (std::cmp_not_equal(info.shard_idx, shard_idx)) continue;
    info.data = buffer.data() + info.offset;
  }
  shard = {.map = {}, .buffer = std::move(*allocated)};
  return {};
}

Status FileImpl::ReadKept(const std::vector<std::string>& left_out,
                          const ProgressFn& progress) {
  const auto is_left_out = [&](const TensorInfo& info) {
    return std::ranges::find(left_out, info.name) != left_out.end();
  };
  uint64_t num_kept = 0;
  for (const TensorInfo& info : tensors_) {
    if (!is_left_out(info)) num_kept += RoundUp(info.num_bytes, kKeptAlignment);
  }
  auto allocated = os::AlignedBuffer::Allocate(num_kept);
  if (!allocated) return Annotate(path_, allocated.error());
  std::byte* to = allocated->data();
  for (TensorInfo& info : tensors_) {
    if (is_left_out(info)) {
      info.data = nullptr;
      continue;
    }
    const auto num_before = static_cast<uint64_t>(to - allocated->data());
    TC_RETURN_IF_ERROR(shards_[info.shard_idx].map.ReadRange(
        info.offset, {to, info.num_bytes},
        Beyond(progress, num_before, num_kept)));
    info.data = to;
    to += RoundUp(info.num_bytes, kKeptAlignment);
  }
  for (Storage& shard : shards_) shard = {};
  shards_.front().buffer = std::move(*allocated);
  return {};
}

Status FileImpl::LockShards(const ProgressFn& progress) const {
  std::vector<std::span<const std::byte>> pieces;
  for (const Storage& shard : shards_) {
    if (!shard.bytes().empty()) pieces.push_back(shard.bytes());
  }
  return os::LockMemory(pieces, progress);
}

tl::unexpected<Error> OutOfMemory(const std::string& path) {
  return Fail(ErrorCode::kResourceExhausted,
              "{}: not enough memory for its metadata", path);
}

}  // namespace

Result<std::unique_ptr<File>> File::Open(const std::string& path) try {
  auto file = std::make_unique<FileImpl>(path);
  TC_RETURN_IF_ERROR(file->MapFirst());
  TC_RETURN_IF_ERROR(file->MapOtherShards());
  TC_RETURN_IF_ERROR(file->IndexAllTensors());
  return std::unique_ptr<File>(std::move(file));
} catch (const std::bad_alloc&) {
  return OutOfMemory(path);
}

Result<std::unique_ptr<File>> File::Parse(std::span<const std::byte> bytes,
                                          const std::string& name) try {
  auto file = std::make_unique<FileImpl>(name);
  TC_RETURN_IF_ERROR(file->AddFirst(bytes));
  TC_RETURN_IF_ERROR(file->IndexAllTensors());
  return std::unique_ptr<File>(std::move(file));
} catch (const std::bad_alloc&) {
  return OutOfMemory(name);
}

Result<std::unique_ptr<File>> File::Parse(os::AlignedBuffer bytes,
                                          const std::string& name) try {
  auto file = std::make_unique<FileImpl>(name);
  TC_RETURN_IF_ERROR(file->AddOwned(std::move(bytes)));
  TC_RETURN_IF_ERROR(file->IndexAllTensors());
  return std::unique_ptr<File>(std::move(file));
} catch (const std::bad_alloc&) {
  return OutOfMemory(name);
}

}  // namespace thermocline::gguf

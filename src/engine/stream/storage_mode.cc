#include "engine/stream/storage_mode.h"

#include <algorithm>

#include "base/check.h"

namespace thermocline::engine {
namespace {

constexpr StorageModeInfo kStorageModes[] = {
    {StorageMode::kCluster, "cluster",
     "clusters of neurons are computed as they come (PowerInfer-2)"},
    {StorageMode::kMatrix, "matrix",
     "matrix by matrix, each read before it is computed"},
    {StorageMode::kWindow, "window",
     "what the last tokens used stays, a layer is read before it is computed "
     "(LLM in a Flash)"},
    {StorageMode::kMmap, "mmap", "the system's pages; no budget is held"},
};

}  // namespace

std::span<const StorageModeInfo> StorageModes() { return kStorageModes; }

std::string_view NameOf(StorageMode mode) {
  const auto* const found =
      std::ranges::find(kStorageModes, mode, &StorageModeInfo::mode);
  TC_CHECK(found != std::end(kStorageModes));
  return found->name;
}

std::optional<StorageMode> ParseStorageMode(std::string_view name) {
  const auto* const found =
      std::ranges::find(kStorageModes, name, &StorageModeInfo::name);
  if (found == std::end(kStorageModes)) return std::nullopt;
  return found->mode;
}

}  // namespace thermocline::engine

// How reading and computing of records that stay in the file go together: ours,
// and others to compare it with.
#ifndef THERMOCLINE_ENGINE_STREAM_STORAGE_MODE_H_
#define THERMOCLINE_ENGINE_STREAM_STORAGE_MODE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace thermocline::engine {

enum class StorageMode : uint8_t {
  // Pieces are computed as their records come, gates are read first where that
  // is faster, and reads begin a layer early (PowerInfer-2 4.3, 4.4).
  kCluster,
  // All gates of a layer are read, then all are tested, then all else is read
  // of those that are open, then computed (its 4.4 and figure 4a).
  kMatrix,
  // What the last tokens used stays; a layer is computed once all that it
  // misses is read, whole records (LLM in a Flash).
  kWindow,
  // The model is mapped, the system brings its pages. Nothing streams, and no
  // budget is held.
  kMmap,
};

struct StorageModeInfo {
  StorageMode mode = StorageMode::kCluster;
  std::string_view name;
  std::string_view text;  // a line for people
};
// The default first.
std::span<const StorageModeInfo> StorageModes();
std::string_view NameOf(StorageMode mode);
std::optional<StorageMode> ParseStorageMode(std::string_view name);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_STREAM_STORAGE_MODE_H_

// Any text is an index of shards or an error; its names stay in the folder.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "import/shard_index.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto shards = thermocline::importer::ParseShardIndex(text, "index");
  if (!shards) return 0;
  for (const auto& [tensor, shard] : *shards) {
    TC_CHECK(shard.find('/') == std::string::npos && shard != "..");
  }
  return 0;
}

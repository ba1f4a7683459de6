// Names of the files that a split model consists of.
#ifndef THERMOCLINE_GGUF_SPLIT_H_
#define THERMOCLINE_GGUF_SPLIT_H_

#include <optional>
#include <string>
#include <string_view>

namespace thermocline::gguf {

inline constexpr int kMaxShards = 99999;  // five digits in the name

// PREFIX-00002-of-00007.gguf, taken apart. The folder is part of the prefix.
struct ShardName {
  std::string prefix;
  int number;  // from 1
  int count;
};

// nullopt when `path` does not follow the pattern.
std::optional<ShardName> ParseShardName(std::string_view path);

// The path of shard `number`. Requires 1 <= number <= kMaxShards.
std::string ShardPath(std::string_view prefix, int number, int count);

}  // namespace thermocline::gguf

#endif  // THERMOCLINE_GGUF_SPLIT_H_

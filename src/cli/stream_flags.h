// Records that stay in the model's file: the flag, when they do, and the words.
#ifndef THERMOCLINE_CLI_STREAM_FLAGS_H_
#define THERMOCLINE_CLI_STREAM_FLAGS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/runtime.h"
#include "engine/session.h"
#include "engine/stream/storage_mode.h"
#include "model/config.h"

namespace thermocline::cli {

// --balance and --deterministic. `policy` is empty for auto.
void AddBalanceFlags(CLI::App& app, std::string& policy, bool& deterministic);

// --unit.
void AddUnitFlag(CLI::App& app, std::optional<engine::StreamUnit>& unit);

// "cluster", or with takes_many "cluster,mmap" and "all", in their order.
// kInvalidArgument lists the names.
Result<std::vector<engine::StorageMode>> ParseStorageModes(
    const std::string& text, bool takes_many);

// --storage, of one mode or of many.
void AddStorageFlag(CLI::App& app, std::vector<engine::StorageMode>& modes,
                    bool takes_many);

// ", RAM 3.90 GiB of 4.00 GiB (weights 3.10 GiB, ...)"; nothing without --ram.
std::string DescribeBudget(const engine::Session& session,
                           const engine::SessionOptions& options);

// ", FFN records 38 % in 2.10 GiB of slots (slow; whole records, gaps to 12
// KiB, depth 64), the rest from M.gguf (io_uring, O_DIRECT, registered
// buffers)"; nothing where all of it is in memory.
std::string DescribeStream(const engine::Session& session);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_STREAM_FLAGS_H_

// Records that stay in the model's file: the flag, when they do, and the words.
#ifndef THERMOCLINE_CLI_STREAM_FLAGS_H_
#define THERMOCLINE_CLI_STREAM_FLAGS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "engine/session.h"
#include "model/config.h"

namespace thermocline::cli {

// --policy.
void AddPolicyFlag(CLI::App& app, std::string& policy);

// ", FFN records 38 % in 2.10 GiB of slots (two-queue), the rest from M.gguf
// (io_uring, O_DIRECT)"; nothing where all of it is in memory.
std::string DescribeStream(const engine::Session& session);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_STREAM_FLAGS_H_

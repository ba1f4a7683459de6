// What the commands share that measure predictions over a text.
#ifndef THERMOCLINE_CLI_EVAL_TEXT_FLAGS_H_
#define THERMOCLINE_CLI_EVAL_TEXT_FLAGS_H_

#include <CLI/CLI.hpp>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cli/session_flags.h"
#include "cli/terminal.h"
#include "engine/session.h"
#include "text/tokenizer.h"

namespace thermocline::cli {

using ModelPtr = std::shared_ptr<const model::Model>;

inline constexpr int64_t kMaxChunks = int64_t{1} << 40;

struct TextFlags {
  ModelFlags model;
  SessionFlags session;
  std::string text_file;
  int64_t max_chunks = kMaxChunks;  // from the text's beginning
  bool no_parse_special = false;
  bool json = false;
};

void AddTextFlags(CLI::App& app, TextFlags& flags);

// Throws a usage error unless -c gives chunks that are long enough.
void CheckChunkFlag(const SessionFlags& flags);

// The model for sessions of one chunk each, in each of the modes, with the
// logits of one where there are several.
Result<ModelPtr> OpenForChunks(const ModelFlags& model,
                               const SessionFlags& session,
                               const std::vector<engine::FfnMode>& modes,
                               ProgressLine& progress);

// The flags for two models that are in memory together, of one chunk each in
// its mode: each has its part of `session.ram`.
Result<std::array<SessionFlags, 2>> ShareRam(
    const SessionFlags& session, const std::array<const ModelFlags*, 2>& models,
    const std::array<engine::FfnMode, 2>& modes);

// Without devices, for whatever they may compute.
void KeepToHost(engine::SessionOptions& options);

// Tokens per chunk: -c, else 512, or `context_length`, the model's, if that is
// less.
int64_t ChunkLength(const SessionFlags& flags, int64_t context_length);

// The text's tokens, enough of them for chunks of that length. kUnsupported: no
// vocabulary; kInvalidArgument: too few, the text is named.
Result<std::vector<text::TokenId>> TokensOf(const TextFlags& flags,
                                            const model::Model& model,
                                            const std::string& text,
                                            int64_t chunk);

// For sessions of one chunk each, every position in the mode asked for.
Result<engine::SessionOptions> ChunkOptions(const SessionFlags& flags,
                                            const model::Config& config,
                                            int64_t chunk,
                                            ProgressLine& progress);

// One of the two that are compared.
struct Side {
  std::string_view role;  // "model", "base"
  ModelPtr model;
  engine::SessionOptions options;

  // With role and file in front.
  tl::unexpected<Error> Annotated(const Error& error) const;
};

// That both can run, and fit memory together. Sides of one model that streams
// get their parts of the budget (shared_budget.h); of two models each side has
// what its options say.
Status FitSides(std::array<Side, 2>& sides, int64_t chunk);

// A session of that side; tells what runs.
Result<std::unique_ptr<engine::Session>> OpenSide(const Side& side);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_EVAL_TEXT_FLAGS_H_

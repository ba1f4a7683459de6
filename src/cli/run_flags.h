// The flags of `run`, for a text to continue and for a chat.
#ifndef THERMOCLINE_CLI_RUN_FLAGS_H_
#define THERMOCLINE_CLI_RUN_FLAGS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/choose_chat_format.h"
#include "cli/session_flags.h"
#include "decode/generate.h"

namespace thermocline::cli {

struct RunFlags {
  ModelFlags model;
  SessionFlags session;
  std::optional<std::string> prompt;
  std::optional<std::string> prompt_file;
  bool chat = false;
  bool no_chat = false;
  bool single_turn = false;
  std::optional<std::string> system;
  std::optional<std::string> system_file;
  ChatFormatFlags chat_format;
  std::optional<std::string> chat_template_kwargs;  // JSON
  int64_t max_tokens = -1;
  std::vector<std::string> stop_strings;
  bool ignore_eos = false;
  bool escape = false;  // asked for; it is the default
  bool no_escape = false;
  bool no_bos = false;
  int64_t seed = -1;
  int64_t top_k = decode::SamplerOptions().top_k;
  int64_t repeat_last_n = decode::SamplerOptions().repeat_last_n;
  decode::SamplerOptions sampler;
  std::optional<std::string> trace_path;  // of a text's continuation
  // Makes the session in the place of CreateSession, if it is there.
  std::function<Result<std::unique_ptr<engine::Session>>(
      std::shared_ptr<const model::Model> model,
      const engine::SessionOptions& options)>
      make_session;
};

void AddRunFlags(CLI::App& app, RunFlags& flags);

// Those of them that do not say how the model is computed: prompt, chat,
// sampler.
void AddTextFlags(CLI::App& app, RunFlags& flags);

// CreateSession, or make_session, and the line that describes it.
struct RunSession {
  std::unique_ptr<engine::Session> session;
  std::string mode;
};
Result<RunSession> MakeRunSession(const RunFlags& flags,
                                  std::shared_ptr<const model::Model> model,
                                  const engine::SessionOptions& options);

// All files that they name to be read: no output may be one of them.
std::vector<std::string> InputFilesOf(const RunFlags& flags);

// Whether the flags ask for a chat, or nothing but a chat is meant: no prompt,
// and a person at standard input. CLI::ValidationError: they contradict each
// other, or leave nothing to do.
bool WantsChat(const RunFlags& flags, bool stdin_is_terminal);

// What the flags ask for, with the program's cancel flag.
decode::GenerateOptions MakeGenerateOptions(const RunFlags& flags);

// The text of -p or -f, if any: -p with its escapes read, -f as it is but for
// one line end at its end, which editors put there.
Result<std::optional<std::string>> ReadPrompt(const RunFlags& flags);

// The same of -sys and -sysf.
Result<std::optional<std::string>> ReadSystemPrompt(const RunFlags& flags);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_RUN_FLAGS_H_

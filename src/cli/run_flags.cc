#include "cli/run_flags.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "cli/flags.h"
#include "cli/open_model.h"
#include "cli/parse_text.h"
#include "cli/signals.h"
#include "cli/standard_io.h"

namespace thermocline::cli {
namespace {

constexpr double kAnyFloat = 1e30;
constexpr int64_t kMaxInt = std::numeric_limits<int>::max();

void AddPromptFlags(CLI::App& app, RunFlags& flags) {
  AddText(app, "-p,--prompt", flags.prompt, "TEXT",
          "Text to continue, as it is (no chat template unless -cnv)");
  AddPath(app, "-f,--file", flags.prompt_file, "FILE",
          "File with the text to continue; -: standard input");
  AddInt(app, "-n,--predict,--n-predict", flags.max_tokens, -2, kMaxInt,
         "Tokens to generate; -1: until the context is full (default -1)");
  AddParsed(app, "-r,--reverse-prompt", "TEXT",
            "Stop where this text comes up; may be given several times",
            [&flags](const std::string& text) -> Status {
              if (text.empty()) {
                return Fail(ErrorCode::kInvalidArgument, "the text is empty");
              }
              flags.stop_strings.push_back(text);
              return {};
            });
  app.add_flag("--ignore-eos", flags.ignore_eos,
               "Never choose a token that ends the text");
  app.add_flag("-e,--escape", flags.escape,
               "Read \\n \\t \\\" \\' \\\\ \\xHH in -p, -sys and -r; this is "
               "the default");
  app.add_flag("--no-escape", flags.no_escape, "Take backslashes as they are");
  app.add_flag("--no-bos", flags.no_bos,
               "Put no BOS in front where the vocabulary asks for one");
}

void AddSamplerFlags(CLI::App& app, RunFlags& flags) {
  decode::SamplerOptions& sampler = flags.sampler;
  const auto with_default = [](const char* text, double value) {
    return fmt::format("{} (default {})", text, value);
  };
  AddFloat(app, "--temp", sampler.temperature, -kAnyFloat, kAnyFloat,
           "Temperature; 0: the most likely token (default 0.8)");
  AddInt(app, "--top-k", flags.top_k, -1, kMaxInt,
         "Keep the k likeliest; 0: all (default 40)");
  AddFloat(app, "--top-p", sampler.top_p, 0, kAnyFloat,
           "Keep the likeliest that sum to p; 1: all (default 0.95)");
  AddFloat(app, "--min-p", sampler.min_p, 0, 1,
           "Keep those at least p times the likeliest; 0: all (default 0.05)");
  AddFloat(app, "--repeat-penalty", sampler.repeat_penalty, 1e-6, kAnyFloat,
           with_default("Divides logits of recent tokens; 1: off",
                        sampler.repeat_penalty));
  AddInt(app, "--repeat-last-n", flags.repeat_last_n, -1,
         decode::kMaxRepeatLastN,
         "Tokens that count as recent; -1: all, 0: none (default 64)");
  AddFloat(app, "--presence-penalty", sampler.presence_penalty, -kAnyFloat,
           kAnyFloat,
           with_default("Taken from logits of recent tokens",
                        sampler.presence_penalty));
  AddFloat(app, "--frequency-penalty", sampler.frequency_penalty, -kAnyFloat,
           kAnyFloat,
           with_default("The same, times how often they came",
                        sampler.frequency_penalty));
  AddInt(app, "-s,--seed", flags.seed, -1, std::numeric_limits<uint32_t>::max(),
         "Seed of the draws; -1: a random one (default -1)");
}

void AddChatFlags(CLI::App& app, RunFlags& flags) {
  app.add_flag("--cnv,--conversation,--chat", flags.chat,
               "Chat; the default at a terminal without -p and -f. With one of "
               "them: the first message");
  app.add_flag("--no-cnv,--no-conversation", flags.no_chat,
               "No chat: a text is continued, also at a terminal");
  app.add_flag("--st,--single-turn", flags.single_turn,
               "End the chat after one answer");
  AddText(app, "--sys,--system-prompt", flags.system, "TEXT",
          "System prompt of a chat");
  AddPath(app, "--sysf,--system-prompt-file", flags.system_file, "FILE",
          "File with the system prompt");
  AddChatFormatFlags(app, flags.chat_format);
  AddText(app, "--chat-template-kwargs", flags.chat_template_kwargs, "JSON",
          "Variables of the template: '{\"enable_thinking\": false}'");
}

void RefuseOpposites(const RunFlags& flags) {
  const auto refuse = [](bool is_both, const char* message) {
    if (is_both) throw CLI::ValidationError(message);
  };
  refuse(flags.prompt.has_value() && flags.prompt_file.has_value(),
         "give the prompt by -p or by -f, not both");
  refuse(flags.system.has_value() && flags.system_file.has_value(),
         "give the system prompt by -sys or by -sysf, not both");
  refuse(flags.chat && flags.no_chat, "-cnv and -no-cnv exclude each other");
  refuse(flags.escape && flags.no_escape,
         "-e and --no-escape exclude each other");
  CheckChatFormatFlags(flags.chat_format,
                       flags.chat_template_kwargs.has_value());
}

// The text of a flag, or of a file.
Result<std::optional<std::string>> TextOf(
    const std::optional<std::string>& typed,
    const std::optional<std::string>& path, bool no_escape) {
  if (typed.has_value()) return no_escape ? *typed : ProcessEscapes(*typed);
  if (!path.has_value()) return std::optional<std::string>();
  TC_ASSIGN_OR_RETURN(std::string text, ReadText(*path));
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

void RefuseStdin(const RunFlags& flags) {
  for (const auto* path :
       {&flags.prompt_file, &flags.system_file,
        &flags.chat_format.template_file, &flags.chat_format.tools_file}) {
    if (!IsStdin(path->value_or(""))) continue;
    throw CLI::ValidationError(
        "standard input is where the chat is typed: give -f, -sysf, "
        "--chat-template-file and --tools a file");
  }
}

}  // namespace

void AddTextFlags(CLI::App& app, RunFlags& flags) {
  AddPromptFlags(app, flags);
  AddChatFlags(app, flags);
  AddSamplerFlags(app, flags);
}

Result<RunSession> MakeRunSession(const RunFlags& flags,
                                  std::shared_ptr<const model::Model> model,
                                  const engine::SessionOptions& options) {
  if (flags.make_session) {
    TC_ASSIGN_OR_RETURN(auto session,
                        flags.make_session(std::move(model), options));
    std::string mode = fmt::format("{}, context {}", session->prompt_device(),
                                   session->context());
    return RunSession{std::move(session), std::move(mode)};
  }
  TC_ASSIGN_OR_RETURN(auto session, CreateSession(std::move(model), options));
  std::string mode = DescribeMode(*session, options);
  return RunSession{std::move(session), std::move(mode)};
}

void AddRunFlags(CLI::App& app, RunFlags& flags) {
  AddModelFlags(app, flags.model);
  AddTextFlags(app, flags);
  AddThreadsFlag(app, flags.session);
  AddContextFlag(app, flags.session, "the model's, at most 4096");
  AddEngineFlags(app, flags.model, flags.session);
  AddPrefillDeviceFlags(app, flags.session.prefill_device);
  AddTimelineFlag(app, flags.session);
  AddPrefillFlag(app, flags.session);
  AddPath(app, "--trace-to", flags.trace_path, "FILE",
          "Write who fires, token by token, and the room that --ram leaves: "
          "for simulate --deterministic")
      ->excludes("--prefill-device");
  app.add_flag_callback(
      "--no-warmup", [] {},
      "Changes nothing: there is no warm-up; for scripts made for llama.cpp");
}

bool WantsChat(const RunFlags& flags, bool stdin_is_terminal) {
  RefuseOpposites(flags);
  const bool has_prompt =
      flags.prompt.has_value() || flags.prompt_file.has_value();
  if (flags.no_chat && !has_prompt) {
    throw CLI::ValidationError("no prompt: give one by -p or -f");
  }
  if (!flags.chat && !has_prompt && !stdin_is_terminal) {
    throw CLI::ValidationError(
        "no prompt: give one by -p or -f; -cnv chats without a terminal too");
  }
  const bool wants_chat = flags.chat || !has_prompt;
  if (wants_chat && flags.trace_path.has_value()) {
    throw CLI::ValidationError(
        "--trace-to: a text's continuation is traced, by -p or -f, not a chat");
  }
  if (!wants_chat &&
      (flags.system.has_value() || flags.system_file.has_value() ||
       flags.chat_format.any() || flags.chat_template_kwargs.has_value() ||
       flags.single_turn)) {
    throw CLI::ValidationError(
        "-sys, -sysf, -st, --tools and those for templates belong to a chat: "
        "add -cnv");
  }
  if (wants_chat) RefuseStdin(flags);
  return wants_chat;
}

decode::GenerateOptions MakeGenerateOptions(const RunFlags& flags) {
  decode::GenerateOptions options;
  options.max_tokens = flags.max_tokens < 0 ? -1 : flags.max_tokens;
  for (const std::string& text : flags.stop_strings) {
    options.stop_strings.push_back(flags.no_escape ? text
                                                   : ProcessEscapes(text));
  }
  options.ignore_eos = flags.ignore_eos;
  options.sampler = flags.sampler;
  options.sampler.top_k = static_cast<int>(flags.top_k);
  options.sampler.repeat_last_n = static_cast<int>(flags.repeat_last_n);
  // -1 becomes the sampler's own word for "random".
  options.sampler.seed = static_cast<uint32_t>(flags.seed);
  options.cancel = CancelFlag();
  return options;
}

std::vector<std::string> InputFilesOf(const RunFlags& flags) {
  std::vector<std::string> files =
      InputFilesOf(flags.model, flags.session.device);
  for (const auto& path :
       {flags.prompt_file, flags.system_file, flags.chat_format.template_file,
        flags.chat_format.tools_file}) {
    if (path.has_value()) files.push_back(*path);
  }
  return files;
}

Result<std::optional<std::string>> ReadPrompt(const RunFlags& flags) {
  return TextOf(flags.prompt, flags.prompt_file, flags.no_escape);
}

Result<std::optional<std::string>> ReadSystemPrompt(const RunFlags& flags) {
  return TextOf(flags.system, flags.system_file, flags.no_escape);
}

}  // namespace thermocline::cli

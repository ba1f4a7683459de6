// `thermocline run`: a prompt in, its continuation out.
#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/parse_text.h"
#include "cli/run_report.h"
#include "cli/session_flags.h"
#include "cli/signals.h"
#include "cli/standard_io.h"
#include "cli/terminal.h"
#include "decode/generate.h"
#include "os/file.h"
#include "os/memory.h"

namespace thermocline::cli {
namespace {

constexpr double kAnyFloat = 1e30;
constexpr int64_t kMaxInt = std::numeric_limits<int>::max();

struct RunFlags {
  ModelFlags model;
  SessionFlags session;
  std::optional<std::string> prompt;
  std::optional<std::string> prompt_file;
  int64_t max_tokens = -1;
  std::vector<std::string> stop_strings;
  bool ignore_eos = false;
  bool no_escape = false;
  bool no_bos = false;
  int64_t seed = -1;
  int64_t top_k = decode::SamplerOptions().top_k;
  int64_t repeat_last_n = decode::SamplerOptions().repeat_last_n;
  decode::SamplerOptions sampler;
};

void AddPromptFlags(CLI::App& app, RunFlags& flags) {
  AddText(app, "-p,--prompt", flags.prompt, "TEXT",
          "Text to continue, as it is (no chat template)");
  AddText(app, "-f,--file", flags.prompt_file, "FILE",
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
  app.add_flag_callback(
      "-e,--escape", [] {},
      "Read \\n \\t \\\" \\' \\\\ \\xHH in -p and -r; this is the default");
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
  AddInt(app, "--repeat-last-n", flags.repeat_last_n, -1, kMaxInt,
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

// The text of -p with its escapes read, or of -f as it is but for one line end
// at its end, which editors put there.
Result<std::string> ReadPrompt(const RunFlags& flags) {
  if (flags.prompt.has_value()) {
    return flags.no_escape ? *flags.prompt : ProcessEscapes(*flags.prompt);
  }
  TC_ASSIGN_OR_RETURN(std::string text,
                      ReadText(flags.prompt_file.value_or("-")));
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

Result<std::vector<text::TokenId>> EncodePrompt(
    const text::Tokenizer& tokenizer, const std::string& prompt, bool no_bos) {
  TC_ASSIGN_OR_RETURN(std::vector<text::TokenId> tokens,
                      tokenizer.Encode(prompt, {.add_special = !no_bos,
                                                .parse_special = true}));
  // What follows is to continue the text: it has not ended.
  const text::Vocab& vocab = tokenizer.vocab();
  if (!no_bos && vocab.add_eos && !tokens.empty() &&
      tokens.back() == vocab.eos) {
    tokens.pop_back();
  }
  return tokens;
}

uint64_t BytesPerGeneratedToken(const engine::Session& session,
                                const engine::SessionOptions& options,
                                const decode::GenerateReport& report) {
  const int64_t middle =
      report.num_prompt_tokens + report.num_generated_tokens / 2;
  return engine::WeightBytesPerToken(session.model()) +
         engine::KvBytesPerToken(session.model().config(), options, middle);
}

Status Run(const RunFlags& flags) {
  TC_ASSIGN_OR_RETURN(const std::string prompt, ReadPrompt(flags));
  ProgressLine progress;
  TC_ASSIGN_OR_RETURN(const auto model, OpenModel(flags.model, progress));
  TC_ASSIGN_OR_RETURN(const text::Tokenizer* tokenizer,
                      RequireTokenizer(*model));
  TC_ASSIGN_OR_RETURN(const std::vector<text::TokenId> tokens,
                      EncodePrompt(*tokenizer, prompt, flags.no_bos));
  if (tokens.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "{}: the prompt has no tokens: there is nothing to continue",
                flags.prompt.has_value() ? "-p" : *flags.prompt_file);
  }
  const engine::SessionOptions options =
      MakeSessionOptions(flags.session, model->config(), progress);
  TC_ASSIGN_OR_RETURN(const auto session, CreateSession(model, options));
  WriteStderr(DescribeMode(*session, options) + "\n");

  Status written;
  const auto report = decode::Generate(
      *session, tokens, MakeGenerateOptions(flags), [&](std::string_view text) {
        progress.Clear();
        written = WriteStdout(text);
        return written.has_value();
      });
  progress.Clear();
  if (StdoutIsTerminal()) TC_RETURN_IF_ERROR(WriteStdout("\n"));
  TC_RETURN_IF_ERROR(written);
  TC_RETURN_IF_ERROR(report);
  WriteStderr(FormatRunSummary(
      *report, BytesPerGeneratedToken(*session, options, *report),
      os::ReadProcessMemory()));
  if (report->reason == decode::StopReason::kCancelled) {
    return Fail(ErrorCode::kCancelled, "interrupted");
  }
  return {};
}

}  // namespace

void AddRunCommand(CLI::App& parent, Action& action) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App* app = parent.add_subcommand("run", "Continues a text");
  AddModelFlags(*app, flags->model);
  AddPromptFlags(*app, *flags);
  AddThreadsFlag(*app, flags->session);
  AddContextFlag(*app, flags->session, "the model's, at most 4096");
  AddEngineFlags(*app, flags->session);
  AddSamplerFlags(*app, *flags);
  app->footer(
      "The continuation goes to standard output, all else to standard error.\n"
      "Special tokens written out in the prompt (<|endoftext|>) count as such."
      "\n\nExamples:\n"
      "  thermocline run -m model.gguf -p \"Once upon a time\" -n 128\n"
      "  thermocline run -m model.gguf -f prompt.txt --temp 0 -r \"The end\"\n"
      "  echo \"Dear Sir\" | thermocline run -m model.gguf -f - -n 64 -s 42");
  app->callback([flags, &action] {
    if (flags->prompt.has_value() && flags->prompt_file.has_value()) {
      throw CLI::ValidationError("give the prompt by -p or by -f, not both");
    }
    if (!flags->prompt.has_value() && !flags->prompt_file.has_value()) {
      throw CLI::ValidationError("no prompt: give one by -p or -f");
    }
    action = [flags] { return Run(*flags); };
  });
}

}  // namespace thermocline::cli

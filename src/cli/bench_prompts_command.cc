// `thermocline bench -f`: speed with real prompts and what the model makes of
// them.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "bench/prompt_bench.h"
#include "cli/bench_commands.h"
#include "cli/encode_text.h"
#include "cli/flags.h"
#include "cli/output_file.h"
#include "cli/parse_text.h"
#include "cli/prompt_file.h"
#include "cli/standard_io.h"
#include "cli/terminal.h"
#include "os/file.h"

namespace thermocline::cli {
namespace {

constexpr int64_t kMaxTestTokens = int64_t{1} << 32;
constexpr int64_t kMaxBenchPrompts = int64_t{1} << 24;

Status StoreTest(const std::string& text,
                 std::vector<bench::PromptTest>& tests) {
  TC_ASSIGN_OR_RETURN(const std::vector<int64_t> numbers,
                      ParseIntList(text, 0, kMaxTestTokens));
  if (numbers.size() != 2) {
    return Fail(ErrorCode::kInvalidArgument,
                "takes two numbers, P,G; of several tests one -pg each");
  }
  if (numbers[1] < 2) {
    return Fail(ErrorCode::kInvalidArgument,
                "G is at least 2: the first token comes with the prompt");
  }
  tests.push_back({.num_prompt = numbers[0], .num_generate = numbers[1]});
  return {};
}

// A session that no test needs more of.
Result<engine::SessionOptions> LargestSession(
    const bench::PromptBenchOptions& bench, int64_t context) {
  engine::SessionOptions session = bench.session;
  session.context = 0;
  for (const bench::PromptTest& test : bench.tests) {
    TC_ASSIGN_OR_RETURN(
        const auto picked,
        bench::PickPrompts(bench.prompts, test, context, bench.source));
    for (const bench::PickedPrompt& prompt : picked) {
      session.context =
          std::max(session.context, static_cast<int64_t>(prompt.tokens.size()) +
                                        test.num_generate);
    }
  }
  if (!bench.threads.empty()) {
    session.num_threads = std::ranges::max(bench.threads);
  }
  return session;
}

Status WriteTokens(const bench::PromptBenchReport& report,
                   const std::string& path) {
  TC_ASSIGN_OR_RETURN(const auto file, os::AtomicFile::Create(path));
  TC_RETURN_IF_ERROR(file->Write(bench::FormatTokensCsv(report)));
  return file->Commit();
}

// Before a long measurement.
Status CheckTokensPath(const BenchFlags& bench_flags,
                       const BenchPromptFlags& flags) {
  if (!flags.tokens_path.has_value()) return {};
  std::vector<std::string> inputs =
      InputFilesOf(bench_flags.model, bench_flags.session.device);
  inputs.push_back(*flags.path);
  return CheckOutput(*flags.tokens_path, inputs);
}

Result<bench::PromptBenchOptions> MakeOptions(
    const BenchFlags& bench_flags, const BenchPromptFlags& flags,
    const std::vector<Prompt>& prompts, const model::Model& model,
    ProgressLine& progress) {
  bench::PromptBenchOptions options;
  TC_ASSIGN_OR_RETURN(const text::Tokenizer* tokenizer,
                      RequireTokenizer(model));
  TC_ASSIGN_OR_RETURN(options.prompts,
                      EncodePrompts(flags, *tokenizer, prompts));
  options.source = InputName(*flags.path);
  options.tests = TestsOrDefault(flags);
  options.threads.assign(bench_flags.threads.begin(),
                         bench_flags.threads.end());
  options.repetitions = static_cast<int>(bench_flags.repetitions);
  TC_ASSIGN_OR_RETURN(
      options.session,
      MakeSessionOptions(bench_flags.session, model.config(), progress));
  options.progress = progress.callback();
  return options;
}

}  // namespace

std::vector<bench::PromptTest> TestsOrDefault(const BenchPromptFlags& flags) {
  return flags.tests.empty() ? std::vector<bench::PromptTest>(1) : flags.tests;
}

Result<std::vector<bench::BenchPrompt>> EncodePrompts(
    const BenchPromptFlags& flags, const text::Tokenizer& tokenizer,
    const std::vector<Prompt>& prompts) {
  std::vector<bench::BenchPrompt> out;
  for (const Prompt& prompt : prompts) {
    if (flags.max_prompts.has_value() &&
        std::cmp_equal(out.size(), *flags.max_prompts)) {
      break;
    }
    TC_ASSIGN_OR_RETURN(auto tokens, EncodePrompt(tokenizer, prompt.text,
                                                  /*with_special=*/true));
    out.push_back({prompt.line, std::move(tokens)});
  }
  return out;
}

int64_t BenchTest::num_positions() const {
  // Without a prompt there is a token to begin with.
  int64_t longest = std::max<int64_t>(test.num_prompt, 1);
  if (test.num_prompt == 0) {
    for (const bench::BenchPrompt& prompt : prompts) {
      longest = std::max(longest, static_cast<int64_t>(prompt.tokens.size()));
    }
  }
  return longest + test.num_generate;
}

Result<BenchTest> ReadBenchTest(const BenchFlags& flags,
                                const BenchPromptFlags& prompt_flags,
                                const model::Model& model) {
  BenchTest test;
  if (!prompt_flags.path) {
    if (flags.prompt_given) test.test.num_prompt = flags.prompt_lengths.front();
    if (flags.generate_given) {
      test.test.num_generate = flags.generate_lengths.front();
    }
    return test;
  }
  TC_ASSIGN_OR_RETURN(const std::string text, ReadText(*prompt_flags.path));
  TC_ASSIGN_OR_RETURN(const auto prompts,
                      ParsePrompts(text, InputName(*prompt_flags.path)));
  TC_ASSIGN_OR_RETURN(const text::Tokenizer* tokenizer,
                      RequireTokenizer(model));
  TC_ASSIGN_OR_RETURN(test.prompts,
                      EncodePrompts(prompt_flags, *tokenizer, prompts));
  test.source = InputName(*prompt_flags.path);
  test.test = TestsOrDefault(prompt_flags).front();
  return test;
}

void AddBenchPromptFlags(CLI::App& app, BenchPromptFlags& flags) {
  AddPath(app, "-f,--file", flags.path, "FILE",
          "Prompts instead of fixed ids, and the model's own continuation: one "
          "prompt per line, or JSON lines; -: standard input");
  AddParsed(app, "--pg", "P,G",
            fmt::format("With -f: prompts of at least P tokens, cut to P (0: "
                        "all, whole), and G generated; as often as there are "
                        "tests (default 0,{})",
                        bench::PromptTest().num_generate),
            [&flags](const std::string& text) {
              return StoreTest(text, flags.tests);
            });
  AddInt(app, "--limit", flags.max_prompts, 1, kMaxBenchPrompts,
         "With -f: the first N prompts only (default: all)");
  AddPath(app, "--tokens-csv", flags.tokens_path, "FILE",
          "With -f: also writes every token's time and bytes");
}

void CheckBenchPromptFlags(const CLI::App& app, const BenchPromptFlags& flags) {
  const bool has_prompts = flags.path.has_value();
  const auto refuse = [&app](std::initializer_list<const char*> names,
                             const char* where) {
    for (const char* name : names) {
      const CLI::Option* option = app.get_option(name);
      if (option->count() == 0) continue;
      throw CLI::ValidationError(DisplayNames(option->get_name(false, true)),
                                 where);
    }
  };
  if (has_prompts) {
    refuse({"--n-prompt", "--n-gen", "--n-depth", "--profile"},
           "has no effect with -f; -pg P,G says how many tokens");
  } else {
    refuse({"--pg", "--limit", "--tokens-csv"},
           "goes with -f, a file of prompts");
  }
}

Status RunPrompts(const BenchFlags& bench_flags,
                  const BenchPromptFlags& flags) {
  TC_RETURN_IF_ERROR(CheckTokensPath(bench_flags, flags));
  TC_ASSIGN_OR_RETURN(const std::string text, ReadText(*flags.path));
  TC_ASSIGN_OR_RETURN(const auto prompts,
                      ParsePrompts(text, InputName(*flags.path)));
  ProgressLine progress;
  TC_ASSIGN_OR_RETURN(
      const auto model,
      OpenForBench(bench_flags, progress, [&](const model::Config& config) {
        return MostPositions(prompts, TestsOrDefault(flags),
                             config.context_length);
      }));
  TC_ASSIGN_OR_RETURN(
      const bench::PromptBenchOptions options,
      MakeOptions(bench_flags, flags, prompts, *model, progress));
  TC_ASSIGN_OR_RETURN(const engine::SessionOptions largest,
                      LargestSession(options, model->config().context_length));
  TC_RETURN_IF_ERROR(CheckBenchFits(*model, largest));
  auto report = bench::RunPromptBench(model, options);
  progress.Clear();
  TC_RETURN_IF_ERROR(report);
  CompleteSubject(report->subject);
  std::string table = bench::FormatPromptBench(*report, bench_flags.format);
  if (bench_flags.format == bench::BenchFormat::kMarkdown) {
    table += DescribeBuild(report->subject, *model);
  }
  if (!flags.tokens_path.has_value()) return WriteStdout(table);
  TC_RETURN_IF_ERROR(WriteTokens(*report, *flags.tokens_path));
  return WriteReport(table, {*flags.tokens_path});
}

}  // namespace thermocline::cli

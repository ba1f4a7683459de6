// `thermocline tokenize`: bytes to token ids and back.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/open_model.h"
#include "cli/parse_text.h"
#include "cli/signals.h"
#include "cli/standard_io.h"
#include "text/tokenizer.h"

namespace thermocline::cli {
namespace {

struct TokenizeFlags {
  std::string model;
  std::optional<std::string> prompt;
  std::optional<std::string> file;
  bool no_bos = false;
  bool parse_special = false;
  bool decode = false;
};

Status Encode(const text::Tokenizer& tokenizer, const TokenizeFlags& flags,
              const std::string& text) {
  TC_ASSIGN_OR_RETURN(
      const auto tokens,
      tokenizer.Encode(text, {.add_special = !flags.no_bos,
                              .parse_special = flags.parse_special}));
  return WriteStdout(fmt::format("{}\n", fmt::join(tokens, " ")));
}

Status Decode(const text::Tokenizer& tokenizer, const std::string& text) {
  std::vector<text::TokenId> tokens;
  if (text.find_first_not_of(", \t\r\n") != std::string::npos) {
    const auto ids = ParseIntList(text, 0, tokenizer.num_tokens() - 1);
    if (!ids.has_value()) return Annotate("token ids", ids.error());
    tokens.assign(ids->begin(), ids->end());
  }
  return WriteStdout(tokenizer.Decode(tokens, /*show_special=*/true));
}

Status Run(const TokenizeFlags& flags) {
  ExitOnInterrupt exit_on_interrupt;  // no file is written
  TC_ASSIGN_OR_RETURN(const Vocabulary vocabulary, OpenVocabulary(flags.model));
  TC_ASSIGN_OR_RETURN(const std::string text,
                      flags.prompt.has_value()
                          ? *flags.prompt
                          : ReadBytes(flags.file.value_or("-")));
  return flags.decode ? Decode(*vocabulary.tokenizer, text)
                      : Encode(*vocabulary.tokenizer, flags, text);
}

}  // namespace

void AddTokenizeCommand(CLI::App& parent, Action& action) {
  auto flags = std::make_shared<TokenizeFlags>();
  CLI::App* app =
      parent.add_subcommand("tokenize", "Turns a text into token ids, or back");
  AddRequiredPath(*app, "-m,--model", flags->model, "FILE",
                  "GGUF model, or vocabulary without tensors");
  auto* file = AddPath(*app, "-f,--file", flags->file, "FILE",
                       "Text; -: standard input, the default");
  AddText(*app, "-p,--prompt", flags->prompt, "TEXT", "Text, as it is")
      ->excludes(file);
  auto* no_bos =
      app->add_flag("--no-bos", flags->no_bos,
                    "Add no BOS or EOS where the vocabulary asks for them");
  auto* parse_special =
      app->add_flag("--parse-special", flags->parse_special,
                    "Special tokens written out in the text count as such");
  app->add_flag("--decode", flags->decode,
                "Read ids (separated by spaces, commas or line ends), write "
                "the bytes they stand for")
      ->excludes(no_bos)
      ->excludes(parse_special);
  app->footer(
      "The text is taken byte for byte, its last line end too.\n\nExamples:\n"
      "  thermocline tokenize -m model.gguf -p 'Hello world'\n"
      "  printf 'Hello world' | thermocline tokenize -m model.gguf\n"
      "  echo '1 15043' | thermocline tokenize -m model.gguf --decode");
  app->callback([flags, &action] { action = [flags] { return Run(*flags); }; });
}

}  // namespace thermocline::cli

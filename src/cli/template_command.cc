// `thermocline template`: what a chat template makes of a conversation.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/choose_chat_format.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/open_model.h"
#include "cli/signals.h"
#include "cli/standard_io.h"
#include "cli/terminal.h"
#include "text/chat_format.h"
#include "text/chat_messages.h"

namespace thermocline::cli {
namespace {

using text::jinja::Json;

// What this command reads itself, and no template as a variable of the user's.
constexpr const char* kPrompt = "add_generation_prompt";
constexpr const char* kContinue = "continue_final_message";

struct TemplateFlags {
  std::optional<std::string> model;
  ChatFormatFlags format;
  std::string messages;
  std::optional<std::string> kwargs_file;
  bool tokens = false;
};

void CheckFlags(const TemplateFlags& flags) {
  CheckChatFormatFlags(flags.format, /*has_kwargs=*/false);
  const bool has_template = flags.format.template_file.has_value();
  if (!flags.model && (!has_template || flags.tokens)) {
    throw CLI::ValidationError(
        has_template ? "tokens are those of a model: give one by -m"
                     : "no template: give a model by -m, or a template by "
                       "--chat-template-file");
  }
  int num_stdin = 0;
  for (const std::string& path :
       {flags.messages, flags.format.template_file.value_or(""),
        flags.format.tools_file.value_or(""), flags.kwargs_file.value_or("")}) {
    num_stdin += IsStdin(path) ? 1 : 0;
  }
  if (num_stdin > 1) {
    throw CLI::ValidationError("standard input can be one file only");
  }
}

Result<Json> ReadJson(const std::string& path) {
  TC_ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  return text::ParseJson(text, InputName(path));
}

Result<Json> ReadKwargs(const TemplateFlags& flags) {
  if (!flags.kwargs_file) return Json::object();
  TC_ASSIGN_OR_RETURN(const std::string text, ReadText(*flags.kwargs_file));
  return ParseTemplateKwargs(text, InputName(*flags.kwargs_file));
}

// Takes a member that is true or false out of the variables.
Result<std::optional<bool>> TakeFlag(const TemplateFlags& flags,
                                     const char* name, Json* kwargs) {
  const auto member = kwargs->find(name);
  if (member == kwargs->end()) return std::nullopt;
  if (!member->is_boolean()) {
    return Fail(ErrorCode::kInvalidArgument, "{}: {} is true or false",
                InputName(*flags.kwargs_file), name);
  }
  const bool value = member->get<bool>();
  kwargs->erase(member);
  return value;
}

// Of what --kwargs names, all flags taken out.
Status CheckKwargs(const TemplateFlags& flags,
                   const text::RenderRequest& request, const Json& kwargs) {
  if (request.continue_final_message &&
      request.add_generation_prompt.value_or(false)) {
    return Fail(ErrorCode::kInvalidArgument,
                "{}: {} and {}: an answer is begun, or the last message "
                "continued",
                InputName(*flags.kwargs_file), kPrompt, kContinue);
  }
  if (!flags.format.name || kwargs.empty()) return {};
  return Fail(ErrorCode::kInvalidArgument,
              "{}: variables are for a template, and the formats of "
              "--chat-template know {} and {} alone",
              InputName(*flags.kwargs_file), kPrompt, kContinue);
}

// Messages that are none are the file's fault, other errors tell of the format:
// a line in them is one of the template.
Result<std::vector<text::TextPart>> Render(const text::ChatFormat& format,
                                           const text::RenderRequest& request,
                                           const std::string& messages_name) {
  const Status checked = text::CheckMessages(*request.messages);
  if (!checked.has_value()) return Annotate(messages_name, checked.error());
  auto parts = format.Render(request);
  if (parts.has_value()) return parts;
  return Annotate(fmt::format("{}: {}", messages_name, format.name()),
                  parts.error());
}

Status Print(const text::ChatFormat& format,
             std::span<const text::TextPart> parts,
             const text::Tokenizer* tokenizer) {
  if (tokenizer == nullptr) return WriteModelText(text::Join(parts));
  TC_ASSIGN_OR_RETURN(
      const std::vector<text::TokenId> tokens,
      text::EncodeChat(*tokenizer, format, parts, /*add_bos=*/true));
  return WriteStdout(fmt::format("{}\n", fmt::join(tokens, " ")));
}

Status Run(const TemplateFlags& flags) {
  ExitOnInterrupt exit_on_interrupt;  // no file is written
  Vocabulary vocabulary;
  if (flags.model) {
    TC_ASSIGN_OR_RETURN(vocabulary, OpenVocabulary(*flags.model));
  }
  TC_ASSIGN_OR_RETURN(const Json messages, ReadJson(flags.messages));
  TC_ASSIGN_OR_RETURN(Json kwargs, ReadKwargs(flags));
  text::RenderRequest request = {.messages = &messages};
  TC_ASSIGN_OR_RETURN(request.add_generation_prompt,
                      TakeFlag(flags, kPrompt, &kwargs));
  TC_ASSIGN_OR_RETURN(const auto is_continued,
                      TakeFlag(flags, kContinue, &kwargs));
  request.continue_final_message = is_continued.value_or(false);
  TC_RETURN_IF_ERROR(CheckKwargs(flags, request, kwargs));
  TC_ASSIGN_OR_RETURN(
      const auto format,
      ChooseChatFormat(flags.format, kwargs,
                       {vocabulary.file.get(), vocabulary.tokenizer.get()}));
  TC_ASSIGN_OR_RETURN(const std::vector<text::TextPart> parts,
                      Render(*format, request, InputName(flags.messages)));
  return Print(*format, parts,
               flags.tokens ? vocabulary.tokenizer.get() : nullptr);
}

}  // namespace

void AddTemplateCommand(CLI::App& parent, Action& action) {
  auto flags = std::make_shared<TemplateFlags>();
  CLI::App* app = parent.add_subcommand(
      "template", "Prints a conversation as a chat template writes it");
  AddPath(*app, "-m,--model", flags->model, "FILE",
          "GGUF model, or vocabulary without tensors: its template, and its "
          "special tokens");
  AddChatFormatFlags(*app, flags->format);
  AddRequiredPath(*app, "--messages", flags->messages, "FILE",
                  "JSON list of messages; -: standard input");
  AddPath(*app, "--kwargs", flags->kwargs_file, "FILE",
          "JSON object whose members are variables of the template");
  app->add_flag("--tokens", flags->tokens,
                "Print the ids of the text's tokens instead");
  app->footer(
      "The text goes to standard output as it is, without a line end behind "
      "it. Members\nof --kwargs are bos_token, eos_token, enable_thinking, "
      "documents and the like;\ncontinue_final_message ends the text where the "
      "last message's content does, and\nadd_generation_prompt begins an "
      "answer behind it, which is so unless one is said.\n\nExamples:\n"
      "  thermocline template -m model.gguf --messages chat.json\n"
      "  thermocline template --chat-template-file t.jinja --messages - "
      "--kwargs k.json\n"
      "  thermocline template -m model.gguf --messages chat.json --tools "
      "tools.json --tokens");
  app->callback([flags, &action] {
    CheckFlags(*flags);
    action = [flags] { return Run(*flags); };
  });
}

}  // namespace thermocline::cli

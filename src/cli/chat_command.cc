#include "cli/chat_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "cli/chat_input.h"
#include "cli/chat_loop.h"
#include "cli/line_editor.h"
#include "cli/open_model.h"
#include "cli/session_flags.h"
#include "cli/signals.h"
#include "cli/standard_io.h"
#include "cli/stdin_lines.h"
#include "cli/terminal.h"
#include "decode/conversation.h"

namespace thermocline::cli {
namespace {

// Where a file has several templates, the second key holds the usual one.
constexpr const char* kTemplateKeys[] = {"tokenizer.chat_template",
                                         "tokenizer.chat_template.default"};

std::string DescribeChat(const text::ChatTemplate& format, bool is_person) {
  return fmt::format("chat in the format {}{}", format.name,
                     is_person ? "; /help lists the commands" : "");
}

// Tells it in a quieter colour than the answers.
void Tell(std::string_view text) {
  const std::string shown = ForTerminal(text);
  WriteStderr(StderrTakesColour() ? fmt::format("\x1b[2m{}\x1b[0m\n", shown)
                                  : shown + "\n");
}

// Formats whose own tokens end a message (Zephyr's marks are plain text) make
// little sense to a model without these tokens. `source`: what names the
// format.
Status WarnOfMissingMarks(const text::ChatTemplate& format,
                          const text::Tokenizer& tokenizer,
                          std::string_view source) {
  if (!format.after_user.starts_with('<')) return {};
  TC_ASSIGN_OR_RETURN(const std::vector<text::TokenId> tokens,
                      text::ReservedTokens(format, tokenizer));
  std::vector<std::string_view> missing;
  for (const std::string_view piece : {format.before_user, format.after_user}) {
    const std::string_view mark = piece.substr(0, piece.find('>') + 1);
    if (mark.empty()) continue;  // plain text, as OpenChat's names of roles
    const bool is_there = std::ranges::any_of(tokens, [&](text::TokenId id) {
      return tokenizer.vocab().tokens[static_cast<size_t>(id)] == mark;
    });
    if (!is_there) missing.push_back(mark);
  }
  if (missing.empty()) return {};
  LogLine(LogLevel::kWarning,
          fmt::format("{} {}: the vocabulary has no control token for {}: "
                      "plain text takes its place, and answers may be poor",
                      source, format.name, fmt::join(missing, ", ")));
  return {};
}

std::unique_ptr<LineSource> OpenInput(bool is_person) {
  if (auto editor = LineEditor::Create()) return editor;
  return std::make_unique<StdinLines>(is_person);
}

ChatPartner MakePartner(LineSource& input, bool is_person,
                        ProgressLine& progress) {
  ChatPartner partner;
  partner.input = &input;
  partner.is_person = is_person;
  partner.answer = [&progress](std::string_view text) {
    progress.Clear();
    return WriteModelText(text);
  };
  partner.tell = [&progress](std::string_view text) {
    progress.Clear();
    Tell(text);
  };
  partner.take_ctrl_c = [is_person] { return is_person && TakeCtrlC(); };
  return partner;
}

// What was read, and shall not be lost by a /save.
std::vector<std::string> ChatInputFiles(const RunFlags& flags) {
  std::vector<std::string> files = InputFilesOf(flags);
  files.emplace_back("-");  // the messages
  return files;
}

}  // namespace

Result<ChosenChat> ChooseChatTemplate(const std::optional<std::string>& name,
                                      const model::Model& model) {
  const text::Tokenizer& tokenizer = *model.tokenizer();
  if (name.has_value()) {
    const text::ChatTemplate* format = text::FindChatTemplate(*name, tokenizer);
    TC_CHECK(format != nullptr);  // the flag takes known names only
    return ChosenChat{format, ""};
  }
  const std::string names =
      fmt::format("{}", fmt::join(text::ChatTemplateNames(), ", "));
  for (const char* key : kTemplateKeys) {
    TC_ASSIGN_OR_RETURN(const std::optional<std::string> jinja,
                        model.file().String(key));
    if (!jinja.has_value() || jinja->empty()) continue;
    const text::ChatTemplate* format =
        text::RecognizeChatTemplate(*jinja, tokenizer);
    if (format != nullptr) {
      auto start = text::AnswerStartOf(*format, *jinja, tokenizer.vocab());
      if (start.has_value()) return ChosenChat{format, *std::move(start)};
      return Fail(ErrorCode::kUnsupported,
                  "{}: its chat template {}; choose a format by "
                  "--chat-template: {}",
                  model.file().path(), start.error().message, names);
    }
    return Fail(ErrorCode::kUnsupported,
                "{}: its chat template is none of those known here; choose "
                "one by --chat-template: {}",
                model.file().path(), names);
  }
  return Fail(ErrorCode::kUnsupported,
              "{}: has no chat template, as models that only continue texts: "
              "give one by -p, without -cnv; or choose a format by "
              "--chat-template: {}",
              model.file().path(), names);
}

Status RunChat(const RunFlags& flags) {
  TC_ASSIGN_OR_RETURN(std::optional<std::string> system,
                      ReadSystemPrompt(flags));
  TC_ASSIGN_OR_RETURN(std::optional<std::string> prompt, ReadPrompt(flags));
  ProgressLine progress;
  TC_ASSIGN_OR_RETURN(const auto model,
                      OpenModel(flags.model, progress, &flags.session));
  TC_RETURN_IF_ERROR(RequireTokenizer(*model));
  TC_ASSIGN_OR_RETURN(const ChosenChat chosen,
                      ChooseChatTemplate(flags.chat_template, *model));
  TC_ASSIGN_OR_RETURN(
      const engine::SessionOptions options,
      MakeSessionOptions(flags.session, model->config(), progress));
  TC_ASSIGN_OR_RETURN(const RunSession made,
                      MakeRunSession(flags, model, options));
  TC_ASSIGN_OR_RETURN(
      const auto conversation,
      decode::Conversation::Create(*made.session,
                                   {.format = chosen.format,
                                    .system = std::move(system).value_or(""),
                                    .add_bos = !flags.no_bos,
                                    .answer_start = chosen.answer_start}));
  const bool is_person = StdinIsTerminal();
  std::optional<CatchCtrlC> catch_ctrl_c;
  if (is_person) catch_ctrl_c.emplace();
  const std::unique_ptr<LineSource> input = OpenInput(is_person);
  const ChatPartner partner = MakePartner(*input, is_person, progress);
  partner.tell(made.mode);
  partner.tell(DescribeChat(*chosen.format, is_person));
  TC_RETURN_IF_ERROR(WarnOfMissingMarks(
      *chosen.format, *model->tokenizer(),
      flags.chat_template ? "--chat-template" : "the model's chat format"));
  Status status = RunChatLoop(*conversation, partner,
                              {.generate = MakeGenerateOptions(flags),
                               .first_message = std::move(prompt),
                               .is_single_turn = flags.single_turn,
                               .input_files = ChatInputFiles(flags)});
  WriteStderr(FormatPrefillTimes(*made.session));
  return status;
}

}  // namespace thermocline::cli

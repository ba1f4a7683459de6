#include "cli/chat_command.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "cli/chat_input.h"
#include "cli/chat_loop.h"
#include "cli/choose_chat_format.h"
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

std::string DescribeChat(const text::ChatFormat& format, bool is_person) {
  return fmt::format("chat in {}{}", format.name(),
                     is_person ? "; /help lists the commands" : "");
}

// Writes it in a quieter colour than the answers.
void WriteQuietly(std::string_view text, std::string_view line_end = "") {
  std::string shown = ForTerminal(text);
  WriteStderr(StderrTakesColour()
                  ? fmt::format("\x1b[2m{}\x1b[0m{}", shown, line_end)
                  : shown.append(line_end));
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
    WriteQuietly(text, "\n");
  };
  partner.think = [&progress](std::string_view text) {
    progress.Clear();
    WriteQuietly(text);
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

Result<std::unique_ptr<const text::ChatFormat>> MakeFormat(
    const RunFlags& flags, ChatModel model, std::string_view system) {
  text::jinja::Json kwargs = text::jinja::Json::object();
  if (flags.chat_template_kwargs) {
    TC_ASSIGN_OR_RETURN(kwargs, ParseTemplateKwargs(*flags.chat_template_kwargs,
                                                    "--chat-template-kwargs"));
  }
  TC_ASSIGN_OR_RETURN(auto format,
                      ChooseChatFormat(flags.chat_format, kwargs, model));
  TC_RETURN_IF_ERROR(
      CheckChatFormat(flags.chat_format, *format, model, system));
  return format;
}

}  // namespace

Status RunChat(const RunFlags& flags) {
  TC_ASSIGN_OR_RETURN(std::optional<std::string> system,
                      ReadSystemPrompt(flags));
  TC_ASSIGN_OR_RETURN(std::optional<std::string> prompt, ReadPrompt(flags));
  ProgressLine progress;
  TC_ASSIGN_OR_RETURN(const auto model,
                      OpenModel(flags.model, progress, &flags.session));
  TC_RETURN_IF_ERROR(RequireTokenizer(*model));
  const ChatModel chat_model = {&model->file(), model->tokenizer()};
  TC_ASSIGN_OR_RETURN(const auto format,
                      MakeFormat(flags, chat_model, system.value_or("")));
  TC_ASSIGN_OR_RETURN(
      const engine::SessionOptions options,
      MakeSessionOptions(flags.session, model->config(), progress));
  TC_ASSIGN_OR_RETURN(const RunSession made,
                      MakeRunSession(flags, model, options));
  TC_ASSIGN_OR_RETURN(
      const auto conversation,
      decode::Conversation::Create(*made.session,
                                   {.format = format.get(),
                                    .system = std::move(system).value_or(""),
                                    .add_bos = !flags.no_bos}));
  const bool is_person = StdinIsTerminal();
  std::optional<CatchCtrlC> catch_ctrl_c;
  if (is_person) catch_ctrl_c.emplace();
  const std::unique_ptr<LineSource> input = OpenInput(is_person);
  const ChatPartner partner = MakePartner(*input, is_person, progress);
  partner.tell(made.mode);
  partner.tell(DescribeChat(*format, is_person));
  const std::string missing =
      DescribeMissingMarks(flags.chat_format, *format, *model->tokenizer());
  if (!missing.empty()) LogLine(LogLevel::kWarning, missing);
  Status status = RunChatLoop(*conversation, partner,
                              {.generate = MakeGenerateOptions(flags),
                               .first_message = std::move(prompt),
                               .is_single_turn = flags.single_turn,
                               .input_files = ChatInputFiles(flags)});
  WriteStderr(FormatPrefillTimes(*made.session));
  return status;
}

}  // namespace thermocline::cli

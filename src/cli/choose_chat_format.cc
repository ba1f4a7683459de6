#include "cli/choose_chat_format.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <iterator>
#include <utility>
#include <vector>

#include "base/check.h"
#include "cli/flags.h"
#include "cli/parse_text.h"
#include "cli/standard_io.h"
#include "text/chat_template.h"
#include "text/model_template.h"
#include "text/named_format.h"

namespace thermocline::cli {
namespace {

using text::jinja::Json;

// Where a file has several templates, the second key holds the usual one.
constexpr const char* kTemplateKeys[] = {"tokenizer.chat_template",
                                         "tokenizer.chat_template.default"};

std::string FormatNames() {
  return fmt::format("{}", fmt::join(text::ChatTemplateNames(), ", "));
}

std::tm LocalTime() {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  ::localtime_r(&now, &local);
  return local;
}

// The error of a template, named by where it comes from, with what to do about
// one that came with the model.
tl::unexpected<Error> TemplateError(const ChatFormatFlags& flags,
                                    ChatModel model, std::string_view what,
                                    const Error& error) {
  if (flags.template_file) {
    return Fail(error.code, "{}: {}{}", InputName(*flags.template_file), what,
                error.message);
  }
  return Fail(error.code,
              "{}: its chat template {}{}; give another by "
              "--chat-template-file, or choose a format by --chat-template: {}",
              model.file->path(), what, error.message, FormatNames());
}

Result<std::optional<std::string>> TemplateOf(const gguf::File& file) {
  for (const char* key : kTemplateKeys) {
    TC_ASSIGN_OR_RETURN(std::optional<std::string> source, file.String(key));
    if (source.has_value() && !source->empty()) return source;
  }
  return std::optional<std::string>();
}

Result<std::string> ReadSource(const ChatFormatFlags& flags, ChatModel model) {
  if (flags.template_file) return ReadText(*flags.template_file);
  TC_ASSIGN_OR_RETURN(std::optional<std::string> source,
                      TemplateOf(*model.file));
  if (source.has_value()) return *std::move(source);
  return Fail(ErrorCode::kUnsupported,
              "{}: has no chat template, as models that only continue texts: "
              "give one by -p, without -cnv; or a template by "
              "--chat-template-file; or choose a format by --chat-template: {}",
              model.file->path(), FormatNames());
}

Result<std::optional<Json>> ReadTools(const ChatFormatFlags& flags) {
  if (!flags.tools_file) return std::optional<Json>();
  TC_ASSIGN_OR_RETURN(const std::string text, ReadText(*flags.tools_file));
  const std::string name = InputName(*flags.tools_file);
  TC_ASSIGN_OR_RETURN(Json tools, text::ParseJson(text, name));
  if (!tools.is_array()) {
    return Fail(ErrorCode::kInvalidArgument,
                "{}: the tools are no list of descriptions of functions", name);
  }
  return std::optional<Json>(std::move(tools));
}

// Formats whose own tokens end a message (Zephyr's marks are plain text) make
// little sense to a model without these tokens.
std::vector<std::string> MissingMarks(const text::ChatTemplate& row,
                                      const text::Tokenizer& tokenizer) {
  std::vector<std::string> missing;
  if (!row.after_user.starts_with('<')) return missing;
  for (const std::string_view piece : {row.before_user, row.after_user}) {
    const std::string_view mark = piece.substr(0, piece.find('>') + 1);
    if (mark.empty()) continue;  // plain text, as OpenChat's names of roles
    if (!tokenizer.HasSpecial(mark)) missing.emplace_back(mark);
  }
  return missing;
}

// Of a template only what ends an answer is known; marks without bars are plain
// text to many models that were trained on them.
std::vector<std::string> MissingMarks(const text::ChatFormat& format) {
  std::vector<std::string> missing;
  std::ranges::copy_if(format.end_texts(), std::back_inserter(missing),
                       [](const std::string& end) {
                         return end.starts_with("<|") ||
                                end.starts_with("<\uFF5C");
                       });
  return missing;
}

}  // namespace

void AddChatFormatFlags(CLI::App& app, ChatFormatFlags& flags) {
  const std::string names = FormatNames();
  AddParsed(app, "--chat-template", "NAME",
            "Format of a chat instead of the model's: " + names,
            [&flags, names](const std::string& name) -> Status {
              const auto known = text::ChatTemplateNames();
              if (std::ranges::find(known, name) == known.end()) {
                return NotOneOf(name, names);
              }
              flags.name = name;
              return {};
            });
  AddPath(app, "--chat-template-file", flags.template_file, "FILE",
          "Jinja template of a chat instead of the model's");
  AddPath(app, "--tools", flags.tools_file, "FILE",
          "JSON list of the functions that the template tells the model of");
}

void CheckChatFormatFlags(const ChatFormatFlags& flags, bool has_kwargs) {
  if (!flags.name) return;
  if (flags.template_file) {
    throw CLI::ValidationError(
        "--chat-template and --chat-template-file exclude each other");
  }
  if (flags.tools_file || has_kwargs) {
    throw CLI::ValidationError(
        "tools and variables are for a template, and the formats of "
        "--chat-template take none");
  }
}

Result<Json> ParseTemplateKwargs(std::string_view text, std::string_view what) {
  TC_ASSIGN_OR_RETURN(Json kwargs, text::ParseJson(text, what));
  if (kwargs.is_object()) return kwargs;
  return Fail(ErrorCode::kInvalidArgument,
              "{}: the variables of a template are a JSON object", what);
}

Result<std::unique_ptr<const text::ChatFormat>> ChooseChatFormat(
    const ChatFormatFlags& flags, const Json& kwargs, ChatModel model) {
  if (flags.name) {
    const text::ChatTemplate* row =
        text::FindChatTemplate(*flags.name, *model.tokenizer);
    TC_CHECK(row != nullptr);  // the flag takes known names only
    return text::NamedFormat::Create(*row, *model.tokenizer);
  }
  TC_ASSIGN_OR_RETURN(const std::string source, ReadSource(flags, model));
  text::ModelTemplateOptions options;
  if (flags.template_file) {
    options.name = "the format of " + InputName(*flags.template_file);
  }
  options.kwargs = kwargs;
  options.now = LocalTime();
  TC_ASSIGN_OR_RETURN(options.tools, ReadTools(flags));
  auto made =
      text::ModelTemplate::Create(source, model.tokenizer, std::move(options));
  if (!made.has_value()) {
    return TemplateError(flags, model, "cannot be run: ", made.error());
  }
  return made;
}

Status CheckChatFormat(const ChatFormatFlags& flags,
                       const text::ChatFormat& format, ChatModel model,
                       std::string_view system) {
  if (flags.name) return {};
  constexpr const char* kMessage = "Hello";
  text::ChatMessages messages =
      Json::array({{{"role", "user"}, {"content", kMessage}}});
  const text::RenderRequest request = {.messages = &messages};
  const auto parts = format.Render(request);
  if (!parts.has_value()) {
    return TemplateError(flags, model, "refuses a message: ", parts.error());
  }
  if (text::Join(*parts).find(kMessage) == std::string::npos) {
    return TemplateError(
        flags, model, "",
        {ErrorCode::kUnsupported, "writes nothing of a message"});
  }
  if (system.empty()) return {};
  messages.insert(messages.begin(),
                  Json{{"role", "system"}, {"content", system}});
  const auto with_system = format.Render(request);
  if (with_system.has_value()) return {};
  return TemplateError(flags, model,
                       "refuses a system prompt: ", with_system.error());
}

std::string DescribeMissingMarks(const ChatFormatFlags& flags,
                                 const text::ChatFormat& format,
                                 const text::Tokenizer& tokenizer) {
  const std::vector<std::string> missing =
      flags.name ? MissingMarks(*text::FindChatTemplate(*flags.name, tokenizer),
                                tokenizer)
                 : MissingMarks(format);
  if (missing.empty()) return "";
  return fmt::format(
      "{}: the vocabulary has no control token for {}: plain text takes its "
      "place, and answers may be poor",
      flags.name ? "--chat-template " + *flags.name
                 : std::string(format.name()),
      fmt::join(missing, ", "));
}

}  // namespace thermocline::cli

// The format of a chat: by its name, of a template in a file, or of the model's
// own.
#ifndef THERMOCLINE_CLI_CHOOSE_CHAT_FORMAT_H_
#define THERMOCLINE_CLI_CHOOSE_CHAT_FORMAT_H_

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "gguf/gguf.h"
#include "text/chat_format.h"
#include "text/tokenizer.h"

namespace thermocline::cli {

struct ChatFormatFlags {
  std::optional<std::string> name;           // a known one
  std::optional<std::string> template_file;  // "-": standard input
  std::optional<std::string> tools_file;     // the same

  bool any() const { return name || template_file || tools_file; }
};

// --chat-template, --chat-template-file and --tools.
void AddChatFormatFlags(CLI::App& app, ChatFormatFlags& flags);

// CLI::ValidationError: two formats, or variables of a template (has_kwargs:
// others than --tools) for a format that has none.
void CheckChatFormatFlags(const ChatFormatFlags& flags, bool has_kwargs);

// The variables that a JSON text holds. kCorrupt, kInvalidArgument: it is none,
// or no object; `what` begins the message.
Result<text::jinja::Json> ParseTemplateKwargs(std::string_view text,
                                              std::string_view what);

// A model's file and vocabulary; both null: a template alone.
struct ChatModel {
  const gguf::File* file = nullptr;
  const text::Tokenizer* tokenizer = nullptr;
};

// What the flags name, else the model's own template (tokenizer.chat_template,
// and where a file has several its default; an empty one is none). `kwargs`:
// variables of the template, an object.
// kUnsupported: the model has no template; the message lists names. kCorrupt:
// the key is no text; templates, tools and variables that cannot be read. The
// errors name the file, and for the model's own template the ways out.
Result<std::unique_ptr<const text::ChatFormat>> ChooseChatFormat(
    const ChatFormatFlags& flags, const text::jinja::Json& kwargs,
    ChatModel model);

// Whether a chat can begin: the format writes a message, and the system prompt
// if it is not empty. Errors: the format's refusals, as above.
Status CheckChatFormat(const ChatFormatFlags& flags,
                       const text::ChatFormat& format, ChatModel model,
                       std::string_view system);

// A line that says which marks of the format are plain text to the model, so
// that answers may be poor; empty: none.
std::string DescribeMissingMarks(const ChatFormatFlags& flags,
                                 const text::ChatFormat& format,
                                 const text::Tokenizer& tokenizer);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_CHOOSE_CHAT_FORMAT_H_

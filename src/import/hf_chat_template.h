// Chat templates of a Hugging Face folder.
#ifndef THERMOCLINE_IMPORT_HF_CHAT_TEMPLATE_H_
#define THERMOCLINE_IMPORT_HF_CHAT_TEMPLATE_H_

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "import/json.h"

namespace thermocline::importer {

// Jinja templates by name; "default" first if it is there.
using ChatTemplates = std::vector<std::pair<std::string, std::string>>;

// The member "chat_template" of tokenizer_config.json or chat_template.json:
// one text, or a list of named ones. Empty if it is absent. kCorrupt.
Result<ChatTemplates> ReadChatTemplates(const JsonFields& fields);

}  // namespace thermocline::importer

#endif  // THERMOCLINE_IMPORT_HF_CHAT_TEMPLATE_H_

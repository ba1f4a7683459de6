#include "import/hf_chat_template.h"

#include <set>

#include "base/quote.h"

namespace thermocline::importer {
namespace {

constexpr size_t kMaxTemplateNameBytes = 1024;  // it becomes part of a key

}  // namespace

Result<ChatTemplates> ReadChatTemplates(const JsonFields& fields) {
  const Json* found = fields.Find("chat_template");
  ChatTemplates templates;
  if (found == nullptr) return templates;
  if (found->is_string()) {
    templates.emplace_back("default", found->get<std::string>());
    return templates;
  }
  if (!found->is_array()) {
    return fields.Wrong("chat_template",
                        "must be a text or a list of named texts");
  }
  std::set<std::string> names;
  for (const Json& entry : *found) {
    TC_ASSIGN_OR_RETURN(
        const auto named,
        JsonFields::Of(entry, fields.path() + ": chat_template"));
    TC_ASSIGN_OR_RETURN(auto name, named.RequireString("name"));
    TC_ASSIGN_OR_RETURN(auto text, named.RequireString("template"));
    if (name.size() > kMaxTemplateNameBytes) {
      return named.Wrong("name",
                         fmt::format("has {} bytes; at most {} are possible",
                                     name.size(), kMaxTemplateNameBytes));
    }
    if (!names.insert(name).second) {
      return named.Wrong("name",
                         fmt::format("is {} in two templates", Quote(name)));
    }
    const bool is_default = name == "default";
    templates.emplace(is_default ? templates.begin() : templates.end(),
                      std::move(name), std::move(text));
  }
  return templates;
}

}  // namespace thermocline::importer

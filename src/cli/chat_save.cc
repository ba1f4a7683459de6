#include "cli/chat_save.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/output_file.h"
#include "os/file.h"

namespace thermocline::cli {

std::string FormatAsText(std::span<const decode::ChatMessage> messages) {
  std::string text;
  const auto add = [&text](std::string_view who, std::string_view said) {
    text += fmt::format("{}{}:\n{}\n", text.empty() ? "" : "\n", who, said);
  };
  for (const decode::ChatMessage& message : messages) {
    if (!message.reasoning.empty()) add("thoughts", message.reasoning);
    add(decode::NameOf(message.role), message.text);
  }
  return text;
}

std::string FormatAsJson(std::span<const decode::ChatMessage> messages) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const decode::ChatMessage& message : messages) {
    list.push_back(
        {{"role", decode::NameOf(message.role)}, {"content", message.text}});
    if (!message.reasoning.empty()) {
      list.back()["reasoning_content"] = message.reasoning;
    }
  }
  return list.dump(2, ' ', /*ensure_ascii=*/false,
                   Json::error_handler_t::replace) +
         "\n";
}

Status SaveConversation(std::span<const decode::ChatMessage> messages,
                        const std::string& path,
                        std::span<const std::string> inputs) {
  if (path.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "no file is named");
  }
  TC_RETURN_IF_ERROR(RefuseToReplaceInput(path, inputs));
  TC_ASSIGN_OR_RETURN(const auto file, os::AtomicFile::Create(path));
  TC_RETURN_IF_ERROR(file->Write(path.ends_with(".json")
                                     ? FormatAsJson(messages)
                                     : FormatAsText(messages)));
  return file->Commit();
}

}  // namespace thermocline::cli

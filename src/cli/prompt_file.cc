#include "cli/prompt_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "text/utf8.h"

namespace thermocline::cli {
namespace {

constexpr std::string_view kBlanks = " \t\r\v\f";

bool IsBlank(std::string_view line) {
  return line.find_first_not_of(kBlanks) == std::string_view::npos;
}

std::optional<std::string> PromptOf(const nlohmann::json& record) {
  for (const char* field : {"prompt", "text", "instruction", "question"}) {
    const auto found = record.find(field);
    if (found != record.end() && found->is_string()) {
      return found->get<std::string>();
    }
  }
  const auto turns = record.find("turns");
  if (turns == record.end() || !turns->is_array() || turns->empty() ||
      !turns->front().is_string()) {
    return std::nullopt;
  }
  return turns->front().get<std::string>();
}

Result<std::string> ReadRecord(std::string_view line) {
  const nlohmann::json record =
      nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!record.is_object()) {
    return Fail(ErrorCode::kInvalidArgument, "is no JSON object");
  }
  auto prompt = PromptOf(record);
  if (prompt.has_value() && !IsBlank(*prompt)) return *std::move(prompt);
  return Fail(ErrorCode::kInvalidArgument,
              "has no prompt: none of \"prompt\", \"text\", \"instruction\", "
              "\"question\", or it is empty, and no \"turns\"");
}

}  // namespace

Result<std::vector<Prompt>> ParsePrompts(std::string_view text,
                                         const std::string& name) {
  text = text::WithoutByteOrderMark(text);
  std::vector<Prompt> prompts;
  std::optional<bool> is_json;
  size_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (IsBlank(line)) continue;
    if (!is_json.has_value()) {
      is_json = line[line.find_first_not_of(kBlanks)] == '{';
    }
    Prompt& prompt = prompts.emplace_back();
    prompt.line = number;
    if (!*is_json) {
      prompt.text = line;
      continue;
    }
    auto record = ReadRecord(line);
    if (!record.has_value()) {
      return Annotate(fmt::format("{}: line {}", name, number), record.error());
    }
    prompt.text = *std::move(record);
  }
  if (!prompts.empty()) return prompts;
  return Fail(ErrorCode::kInvalidArgument, "{}: holds no prompt", name);
}

}  // namespace thermocline::cli

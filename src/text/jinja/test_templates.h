// For tests: templates rendered to one text, and where recorded ones lie.
#ifndef THERMOCLINE_TEXT_JINJA_TEST_TEMPLATES_H_
#define THERMOCLINE_TEXT_JINJA_TEST_TEMPLATES_H_

#include <gtest/gtest.h>

#include <ctime>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "text/jinja/template.h"

namespace thermocline::text::jinja {

// 2026-03-05 09:07:08, a Thursday: the clock of the recorded renderings.
inline std::tm RecordedClock() {
  std::tm now = {};
  now.tm_year = 126;
  now.tm_mon = 2;
  now.tm_mday = 5;
  now.tm_hour = 9;
  now.tm_min = 7;
  now.tm_sec = 8;
  now.tm_wday = 4;
  now.tm_yday = 63;
  return now;
}

inline Result<std::vector<TextPart>> RenderParts(
    std::string_view source, const Variables& variables = {},
    const Limits& limits = {}) {
  TC_ASSIGN_OR_RETURN(const Template parsed, Template::Parse(source, limits));
  RenderOptions options{.limits = limits, .now = RecordedClock()};
  return parsed.Render(variables, options);
}

inline std::string Joined(const std::vector<TextPart>& parts) {
  std::string text;
  for (const TextPart& part : parts) text += part.text;
  return text;
}

// The text; of an error "ERROR: " and its message.
inline std::string RenderText(std::string_view source,
                              const Variables& variables = {},
                              const Limits& limits = {}) {
  const auto parts = RenderParts(source, variables, limits);
  return parts.has_value() ? Joined(*parts) : "ERROR: " + parts.error().message;
}

// What is content in brackets: "a[b]c".
inline std::string ShowContent(std::string_view source,
                               const Variables& variables) {
  const auto parts = RenderParts(source, variables);
  if (!parts.has_value()) return "ERROR: " + parts.error().message;
  std::string shown;
  for (const TextPart& part : *parts) {
    shown += part.is_markup ? part.text : "[" + part.text + "]";
  }
  return shown;
}

inline std::string ReadWholeFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

inline Json ReadJsonFile(const std::string& path) {
  return Json::parse(ReadWholeFile(path), nullptr, false);
}

inline std::string RecordedTemplates() {
  return std::string(TC_TEST_DATA) + "/chat-templates";
}

// Those with licences to read, not to copy: not in the repository.
inline std::string FixtureTemplates() {
  return std::string(TC_SOURCE_DIR) + "/../shared/fixtures/chat-templates";
}

}  // namespace thermocline::text::jinja

#endif  // THERMOCLINE_TEXT_JINJA_TEST_TEMPLATES_H_

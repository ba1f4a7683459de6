// Templates of real models, and small ones, against what Jinja2 made of them.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "text/continue_message.h"
#include "text/jinja/template.h"
#include "text/jinja/test_templates.h"

namespace thermocline::text::jinja {
namespace {

constexpr size_t kNumSnippets = 252;
constexpr size_t kNumFixtures = 65;
constexpr size_t kNumFixtureCases = 2405;

Variables VariablesOf(const Json& file, const Json& entry, bool has_none) {
  Variables variables;
  for (const auto& [key, value] : file.items()) {
    if (key != "cases" && key != "template") variables.markup[key] = value;
  }
  if (has_none)
    variables.content["tools"] = variables.content["documents"] = {};
  for (const auto& [key, value] : entry.items()) {
    if (key == "messages" || key == "tools" || key == "documents") {
      variables.content[key] = value;
    } else if (key == "add_generation_prompt") {
      variables.markup[key] = value;
    } else if (key == "kwargs") {
      for (const auto& [name, kwarg] : value.items()) {
        variables.markup[name] = kwarg;
      }
    }
  }
  return variables;
}

// Neighbours differ, and nothing is empty.
void ExpectProperParts(const std::vector<TextPart>& parts) {
  for (size_t i = 0; i < parts.size(); ++i) {
    EXPECT_FALSE(parts[i].text.empty());
    if (i > 0) EXPECT_NE(parts[i].is_markup, parts[i - 1].is_markup);
  }
}

Result<std::vector<TextPart>> RenderEntry(const Template& parsed,
                                          Variables variables,
                                          bool is_continued) {
  RenderOptions options;
  options.now = RecordedClock();
  if (!is_continued) return parsed.Render(variables, options);
  TC_ASSIGN_OR_RETURN(const std::string text,
                      AppendContinueTag(&variables.content["messages"]));
  TC_ASSIGN_OR_RETURN(std::vector<TextPart> parts,
                      parsed.Render(variables, options));
  TC_RETURN_IF_ERROR(CutAtContinueTag(text, &parts));
  return parts;
}

// `expected` holds "rendered" or "error"; `lenient`, if any, is as good.
void ExpectOutcome(const Result<std::vector<TextPart>>& parts,
                   const Json& expected, const Json& lenient) {
  if (parts.has_value()) ExpectProperParts(*parts);
  const std::string text =
      parts.has_value() ? Joined(*parts) : "ERROR: " + parts.error().message;
  for (const Json& allowed : {expected, lenient}) {
    if (!allowed.contains("rendered")) continue;
    EXPECT_EQ(text, allowed["rendered"].get<std::string>());
    return;
  }
  const Json& error = expected["error"];
  if (error["kind"] != "raise_exception") {
    EXPECT_FALSE(parts.has_value()) << text << error;
    return;
  }
  ASSERT_FALSE(parts.has_value());
  EXPECT_EQ(parts.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(parts.error().message, error["message"].get<std::string>());
}

// Gives the number of cases.
size_t CheckTemplate(const std::filesystem::path& path) {
  SCOPED_TRACE(path.filename());
  const Json file = ReadJsonFile(path);
  const auto source = path.parent_path() / file["template"].get<std::string>();
  const auto parsed = Template::Parse(ReadWholeFile(source));
  EXPECT_TRUE(parsed.has_value()) << parsed.error().message;
  if (!parsed.has_value()) return 0;
  for (const Json& entry : file["cases"]) {
    SCOPED_TRACE(entry["name"].get<std::string>());
    const bool is_continued = entry.value("continue_final_message", false);
    const Json lenient = entry.value("lenient", Json::object());
    ExpectOutcome(
        RenderEntry(*parsed, VariablesOf(file, entry, true), is_continued),
        entry, lenient);
    SCOPED_TRACE("without tools and documents");
    ExpectOutcome(
        RenderEntry(*parsed, VariablesOf(file, entry, false), is_continued),
        entry.value("absent", entry), lenient);
  }
  return file["cases"].size();
}

std::pair<size_t, size_t> CheckFolder(const std::string& folder) {
  size_t num_templates = 0, num_cases = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() != ".json" ||
        file.path().filename() == "snippets.json") {
      continue;
    }
    ++num_templates;
    num_cases += CheckTemplate(file.path());
  }
  return {num_templates, num_cases};
}

TEST(JinjaGoldenTest, RecordedTemplates) {
  const auto [num_templates, num_cases] = CheckFolder(RecordedTemplates());
  EXPECT_GE(num_templates, 20u);
  EXPECT_GE(num_cases, 37 * num_templates);
}

TEST(JinjaGoldenTest, TemplatesOfOtherLicences) {
  if (!std::filesystem::exists(FixtureTemplates())) {
    GTEST_SKIP() << FixtureTemplates() << " is not there";
  }
  const auto [num_templates, num_cases] = CheckFolder(FixtureTemplates());
  EXPECT_EQ(num_templates, kNumFixtures);
  EXPECT_EQ(num_cases, kNumFixtureCases);
}

TEST(JinjaGoldenTest, Snippets) {
  // Integers end at 64 bits here.
  const std::set<std::string> refused = {"{{ 2 ** 70 }}",
                                         "{{ 9223372036854775807 + 1 }}"};
  // Lists can grow here, and what map and the like give is as good as a list.
  const std::set<std::string> rendered = {"{{ l.append(4) }}",
                                          "{{ l|map('string')|tojson }}"};
  // `self`, a template's blocks: there are none here.
  const std::string no_self = "{{ self is defined }} {{ True }}";
  const Json file = ReadJsonFile(RecordedTemplates() + "/snippets.json");
  ASSERT_EQ(file["cases"].size(), kNumSnippets);
  Variables variables;
  variables.content = file["variables"];
  for (const Json& entry : file["cases"]) {
    const auto source = entry["template"].get<std::string>();
    SCOPED_TRACE(source);
    const auto parts = RenderParts(source, variables);
    if (source.starts_with(no_self)) {
      EXPECT_TRUE(RenderText(source, variables).starts_with("False True"));
    } else if (refused.contains(source)) {
      EXPECT_FALSE(parts.has_value());
    } else if (entry.contains("rendered")) {
      EXPECT_EQ(RenderText(source, variables),
                entry["rendered"].get<std::string>());
    } else if (entry["error"]["kind"] == "raise_exception") {
      EXPECT_EQ(RenderText(source, variables),
                "ERROR: " + entry["error"]["message"].get<std::string>());
    } else {
      EXPECT_EQ(parts.has_value(), rendered.contains(source));
    }
  }
}

}  // namespace
}  // namespace thermocline::text::jinja

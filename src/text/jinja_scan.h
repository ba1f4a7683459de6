// Looks into chat templates (Jinja) without running them.
#ifndef THERMOCLINE_TEXT_JINJA_SCAN_H_
#define THERMOCLINE_TEXT_JINJA_SCAN_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace thermocline::text {

enum class JinjaKind { kText, kExpression, kStatement };

struct JinjaNode {
  JinjaKind kind;
  // Text as it is written out; what stands between the braces, trimmed.
  std::string text;
};

// The parts of a template, without its comments. Text has the white space that
// is left of it: as the signs - and + say, and as where chat templates are run
// (trim_blocks, lstrip_blocks). A part that never ends is left out. Any bytes;
// linear.
std::vector<JinjaNode> ScanJinja(std::string_view jinja);

// The text of an expression of string literals and +; nullopt: it has more.
std::optional<std::string> LiteralOf(std::string_view expression);

// What a template writes where the model's answer is to begin: under the last
// condition on add_generation_prompt that writes something. Conditions inside
// of it that ask whether a variable is defined count as false. nullopt: there
// is no such text, or more than literals makes it.
std::optional<std::string> GenerationPromptOf(std::string_view jinja);

}  // namespace thermocline::text

#endif  // THERMOCLINE_TEXT_JINJA_SCAN_H_

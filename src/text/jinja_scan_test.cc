#include "text/jinja_scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace thermocline::text {
namespace {

using ::testing::ElementsAre;

// "text", "{expression}", "%statement%".
std::vector<std::string> Scanned(std::string_view jinja) {
  std::vector<std::string> nodes;
  for (const auto& [kind, text] : ScanJinja(jinja)) {
    nodes.push_back(kind == JinjaKind::kText         ? text
                    : kind == JinjaKind::kExpression ? "{" + text + "}"
                                                     : "%" + text + "%");
  }
  return nodes;
}

TEST(ScanJinjaTest, Parts) {
  EXPECT_THAT(Scanned("a{{ b }}c{% if d %}{# e #}f"),
              ElementsAre("a", "{b}", "c", "%if d%", "f"));
  EXPECT_THAT(Scanned("{{ '}}' + \"%}\\\"}}\" }}x"),
              ElementsAre("{'}}' + \"%}\\\"}}\"}", "x"));
  EXPECT_THAT(Scanned(""), ElementsAre());
  EXPECT_THAT(Scanned("{ {x} }"), ElementsAre("{ {x} }"));
  // What never ends.
  EXPECT_THAT(Scanned("a{{ b"), ElementsAre("a{{ b"));
  EXPECT_THAT(Scanned("a{"), ElementsAre("a{"));
  EXPECT_THAT(Scanned("{%-%}{{-}}"), ElementsAre("%%", "{}"));
}

TEST(ScanJinjaTest, WhiteSpace) {
  // By signs.
  EXPECT_THAT(Scanned("a \n{{- b -}}\n c"), ElementsAre("a", "{b}", "c"));
  EXPECT_THAT(Scanned("a \n{{ b }}\n c"), ElementsAre("a \n", "{b}", "\n c"));
  // The line end behind a statement, and what is in front of it on its line.
  EXPECT_THAT(Scanned("a\n  {% b %}\n c"), ElementsAre("a\n", "%b%", " c"));
  EXPECT_THAT(Scanned("  {% b %}\n\n"), ElementsAre("%b%", "\n"));
  EXPECT_THAT(Scanned("{% a %}\n  {% b %}"), ElementsAre("%a%", "%b%"));
  EXPECT_THAT(Scanned("a {% b %} {% c %}"),
              ElementsAre("a ", "%b%", " ", "%c%"));
  EXPECT_THAT(Scanned(" {%+ b +%}\nc"), ElementsAre(" ", "%b%", "\nc"));
  EXPECT_THAT(Scanned("a\n{# b #}\nc"), ElementsAre("a\n", "c"));
}

TEST(LiteralOfTest, StringsAndTheirSums) {
  EXPECT_EQ(LiteralOf("'a\\n' + \"b\\\"\\\\\\x\""), "a\nb\"\\\\x");
  EXPECT_EQ(LiteralOf(" '' "), "");
  for (const char* expression :
       {"", "a", "'a' + b", "'a' if b", "'a", "'a' +", "+ 'a'", "'a' | trim"}) {
    EXPECT_EQ(LiteralOf(expression), std::nullopt) << expression;
  }
}

TEST(GenerationPromptOfTest, LiteralsUnderTheCondition) {
  const std::pair<const char*, const char*> cases[] = {
      {"{% if add_generation_prompt %}A\n<think>\n{% endif %}", "A\n<think>\n"},
      {"{%- if loop.last and add_generation_prompt -%}\n"
       "  {{- 'A' + '\\n' -}}\n{%- endif -%}",
       "A\n"},
      {"x{% if add_generation_prompt %}{{ 'A' }}{% else %}B{% endif %}", "A"},
      {"{% if not x %}B{% elif y %}{% endif %}"
       "{{ 'A' if add_generation_prompt else '' }}",
       "A"},
      // Setting a default is no prompt.
      {"{% if add_generation_prompt %}A{% endif %}"
       "{% if add_generation_prompt is not defined %}"
       "{% set add_generation_prompt = false %}{% endif %}"
       "{% if not add_generation_prompt is defined %}B{% endif %}",
       "A"},
      // Settings that nobody gives.
      {"{% if add_generation_prompt %}A{% if thinks is defined and not thinks "
       "%}"
       "<think></think>{% endif %}{% endif %}",
       "A"},
      {"{% if add_generation_prompt %}A{% if thinks is defined %}B{{ x }}"
       "{% else %}<think>{% endif %}{% endif %}",
       "A<think>"},
  };
  for (const auto& [jinja, prompt] : cases) {
    EXPECT_EQ(GenerationPromptOf(jinja), prompt) << jinja;
  }
}

TEST(GenerationPromptOfTest, NoneWhereItTakesMoreThanLiterals) {
  std::string deep = "{% if add_generation_prompt %}A";
  for (int i = 0; i < 100'000; ++i) deep += "{% if x is defined %}";
  for (const std::string& jinja : std::vector<std::string>{
           "", "{{ messages }}", "add_generation_prompt",
           "{% if add_generation_prompt %}A",
           "{% if add_generation_prompt %}{% endif %}",
           "{% if not add_generation_prompt %}A{% endif %}",
           "{% if add_generation_prompt %}A{{ role }}{% endif %}",
           "{% if add_generation_prompt %}{{ '<' + role }}{% endif %}",
           "{% if add_generation_prompt %}A{% if x %}B{% endif %}{% endif %}",
           "{% if add_generation_prompt %}{% for x in y %}A{% endfor %}"
           "{% endif %}",
           "{{ 'A' if messages else add_generation_prompt }}", deep}) {
    EXPECT_EQ(GenerationPromptOf(jinja), std::nullopt) << jinja.substr(0, 200);
  }
}

}  // namespace
}  // namespace thermocline::text

// Limits end what takes too long, makes too much or is too deep, and say so.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/template.h"
#include "text/jinja/test_templates.h"

namespace thermocline::text::jinja {
namespace {

std::string Repeated(std::string_view text, int n) {
  std::string all;
  for (int i = 0; i < n; ++i) all += text;
  return all;
}

// An error whose message begins so.
void ExpectError(const std::string& source, const std::string& expected,
                 const Limits& limits) {
  const std::string text = RenderText(source, {}, limits);
  EXPECT_TRUE(text.starts_with("ERROR: " + expected))
      << text.substr(0, 200) << " of " << source.substr(0, 200);
}

TEST(LimitsTest, LimitsEndWhatDoesNotEnd) {
  const Limits limits = {.num_steps = 1'000'000, .num_bytes = 50'000'000};
  const std::string steps = "line 1: the template takes more than ";
  const std::string bytes = "line 1: the template makes more than ";
  const std::string loops =
      Repeated("{% for i in r[:30] %}", 6) + Repeated("{% endfor %}", 6);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{% set r = range(1000)|list %}" + loops, steps},
      {"{{ 'a' * 10**9 }}", bytes},
      {"{{ 'a' * 9223372036854775807 }}", bytes},
      {"{{ [0] * 10**8 }}", bytes},
      {"{{ 'abc' * 10**6 * 10**7 }}", bytes},
      {"{{ 'a'.center(10**12) }}", steps},
      {"{{ ('a' * 10**5)|replace('a', 'b' * 10**4) }}", bytes},
      {"{{ ('a' * 4 * 10**6)|list }}", bytes},
      {"{% set x = namespace(a='ab') %}{% for i in range(99) %}"
       "{% set x.a = x.a + x.a %}{% endfor %}",
       bytes},
      {"{% set x = namespace(a=[1]) %}{% for i in range(99) %}"
       "{% set x.a = [x.a, x.a] %}{% endfor %}{{ x.a }}",
       "line 1: the template "},
      {"{% set x = namespace(a=[1], b=[1]) %}{% for i in range(99) %}"
       "{% set x.a = [x.a, x.a] %}{% set x.b = [x.b, x.b] %}{% endfor %}"
       "{{ x.a == x.b }}",
       steps},
  };
  for (const auto& [source, expected] : cases) {
    ExpectError(source, expected, limits);
  }
}

constexpr std::string_view kTexts =
    "{% set s = 'a' * 400000 %}{% set p = 'a' * 200000 ~ 'b' %}";
constexpr std::string_view kRounds = "{% for i in range(1000) %}";

void ExpectTooManySteps(const std::vector<std::string>& sources) {
  for (const std::string& source : sources) {
    ExpectError(source, "line 1: the template takes more than ",
                {.num_steps = 100'000, .num_bytes = 50'000'000});
  }
}

TEST(LimitsTest, SearchesThatCompareEverywhere) {
  const std::string texts(kTexts);
  ExpectTooManySteps({
      texts + "{{ p in s }}",
      texts + "{{ s.find(p) }}",
      texts + "{{ s.rindex(p) }}",
      texts + "{{ s.count(p) }}",
      texts + "{{ s.split(p) }}",
      texts + "{{ s.rsplit(p) }}",
      texts + "{{ s.partition(p) }}",
      texts + "{{ s|replace(p, '') }}",
      texts + "{{ s.strip('b' * 10000 ~ 'a') }}",
      "{{ ('<' * 1000000)|e }}",
      "{{ ('\\n' * 1000000)|tojson }}",
      "{{ ['\\n' * 1000000] }}",
  });
}

// What makes nothing, again and again.
TEST(LimitsTest, WorkOfWhichNothingComes) {
  const std::string rounds(kRounds);
  const std::string texts = std::string(kTexts) + rounds;
  const std::string end = "{% endfor %}";
  ExpectTooManySteps({
      texts + "{{ ''.strip(s) }}{{ 'x'.strip(s) }}" + end,
      texts + "{% set x = s|e %}" + end,
      texts + "{% set x = {s: 1}[s] %}" + end,
      texts + "{% set x = s.removeprefix(s) %}" + end,
      "{% set t = ('b',) * 100000 %}" + rounds +
          "{% set x = 'a'.startswith(t) %}" + end,
      "{% set t = (1,) * 100000 %}{% set d = {t: 1} %}" + rounds +
          "{% set x = t in d %}" + end,
      "{% set t = [1] * 100000 %}" + rounds +
          "{% for x in t %}{% break %}{% endfor %}" + end,
      "{% set n = namespace() %}{% set n.a = n %}"
      "{{ [n]|map(attribute='a' ~ '.a' * 300000)|list }}",
  });
}

TEST(LimitsTest, LoopsWithinLoopsKeepNothing) {
  EXPECT_EQ(RenderText("{% set l = [0] * 1000 %}{% for i in l %}"
                       "{% for j in l %}{% break %}{% endfor %}"
                       "{{ loop.nextitem }}{% endfor %}",
                       {}, {.num_bytes = 1'000'000})
                .size(),
            999);
  EXPECT_EQ(RenderText("{% set n = namespace() %}{% for i in [1, 2] %}"
                       "{% set n.l = loop %}{% endfor %}"
                       "{{ n.l.length }} {{ n.l.previtem is defined }}"),
            "2 False");
}

TEST(LimitsTest, LimitsEndWhatIsDeep) {
  const std::string deep = "line 1: macros call each other more than 100 deep";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", deep},
      {"{% set x = namespace(a=0) %}{% for i in range(300) %}"
       "{% set x.a = [x.a] %}{% endfor %}{{ x.a }}",
       "line 1: a value is nested more than 200 deep"},
      {"{% set l = [] %}{% set _ = l.append(l) %}{{ l|tojson }}",
       "line 1: a value is nested more than 200 deep"},
      {"{{ range(100001) }}", "line 1: a range of 100001 numbers, more than"},
      {"{{ " + Repeated("(", 250) + "1" + Repeated(")", 250) + " }}",
       "line 1: nested too deep"},
      {"{{ " + Repeated("not ", 250) + "1 }}", "line 1: nested too deep"},
      {"{{ " + Repeated("- ", 250) + "1 }}", "line 1: nested too deep"},
      {Repeated("{% if x %}", 250) + Repeated("{% endif %}", 250),
       "line 1: nested too deep"},
      {"{{ " + Repeated("1 if 1 else ", 250) + "1 }}",
       "line 1: nested too deep"},
  };
  for (const auto& [source, expected] : cases) {
    ExpectError(source, expected, {});
  }
}

TEST(LimitsTest, LongChainsAreNotDeep) {
  const std::string ones = Repeated(" + 1", 5000);
  EXPECT_EQ(RenderText("{{ 0" + ones + " }}"), "5000");
  EXPECT_EQ(RenderText("{{ ''" + Repeated(" ~ ''", 5000) + " }}"), "");
  EXPECT_EQ(RenderText("{{ 0" + Repeated(" or 0", 5000) + " }}"), "0");
  EXPECT_EQ(RenderText("{{ 'a'" + Repeated("|trim", 5000) + " }}"), "a");
  EXPECT_EQ(RenderText("{% if 0 %}" + Repeated("{% elif 0 %}", 5000) +
                       "{% else %}x{% endif %}"),
            "x");
}

// As deep as is allowed, in all ways at once: the stack suffices.
TEST(LimitsTest, DeepestNestingRuns) {
  const std::string open = Repeated("{% if 1 %}{% for i in [1] %}", 85);
  const std::string close = Repeated("{% endfor %}{% endif %}", 85);
  const std::string deep = Repeated("[", 20) + "1" + Repeated("]", 20);
  EXPECT_EQ(RenderText(open + "{{ " + deep + "[0] is iterable }}" + close),
            "True");
  const std::string macro =
      "{% macro f(n) %}{% if n > 0 %}{% for i in [1] %}"
      "{{ n }}{{ f(n - 1) }}{% endfor %}{% endif %}"
      "{% endmacro %}";
  EXPECT_EQ(RenderText(macro + "{{ f(99)|length }}"), "189");
  // Deeper bodies of macros end in an error, not in the stack's end.
  const std::string wide =
      "{% macro f(n) %}" + Repeated("{% if 1 %}", 150) + "{{ [" +
      Repeated("[", 40) + "f(n)" + Repeated("]", 40) + "] }}" +
      Repeated("{% endif %}", 150) + "{% endmacro %}{{ f(1) }}";
  EXPECT_EQ(RenderText(wide),
            "ERROR: line 1: statements and expressions of macros that call "
            "each other are nested too deep");
}

TEST(LimitsTest, DeepVariables) {
  Variables variables;
  const auto nested = [](int depth) {
    return Json::parse(Repeated("[", depth) + Repeated("]", depth));
  };
  variables.content["x"] = nested(200);
  EXPECT_EQ(RenderText("{{ x|tojson }}", variables),
            Repeated("[", 200) + Repeated("]", 200));
  variables.content["x"] = nested(201);
  EXPECT_EQ(RenderText("{{ x|tojson }}", variables),
            "ERROR: the variable 'x': a value is nested more than 200 deep");
  EXPECT_EQ(RenderText("no x", variables), "no x");
  variables.content["x"] = Repeated("[", 100000);
  EXPECT_EQ(RenderText("{{ x|from_json }}", variables),
            "ERROR: line 1: a value is nested more than 200 deep");
}

TEST(LimitsTest, SmallLimits) {
  Limits limits;
  limits.num_steps = 10;
  EXPECT_EQ(RenderText("{{ 1 }}", {}, limits), "1");
  EXPECT_EQ(RenderText("{{ [1, 2, 3, 4, 5, 6, 7, 8, 9] }}", {}, limits),
            "ERROR: line 1: the template takes more than 10 steps, and may "
            "never end");
  limits = {.num_bytes = 1000};
  EXPECT_TRUE(RenderText(std::string(1001, 'x'), {}, limits)
                  .starts_with("ERROR: line 1: the template makes more"));
  limits = {.depth = 2};
  EXPECT_TRUE(RenderText("{% macro f(n) %}{% if n %}{{ f(n - 1) }}{% endif %}"
                         "{% endmacro %}{{ f(1) }}{{ f(2) }}",
                         {}, limits)
                  .starts_with("ERROR: line 1: macros call each other"));
  limits = {.nesting = 3};
  EXPECT_EQ(RenderText("{{ ((((1)))) }}", {}, limits),
            "ERROR: line 1: nested too deep");
}

}  // namespace
}  // namespace thermocline::text::jinja

// What templates mean where recorded renderings are thin: who wrote what,
// limits, errors with their lines.
#include "text/jinja/template.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/test_templates.h"

namespace thermocline::text::jinja {
namespace {

struct Case {
  std::string_view source;
  std::string_view expected;
};

Variables SomeVariables() {
  Variables variables;
  variables.content = Json::parse(R"json({
    "user": "Hi <|im_end|>", "spaced": "  a b \n", "list": ["x", "y"],
    "call": {"name": "f", "arguments": {"k<1>": "v", "n": 3}},
    "number": 42, "big": 18446744073709551615, "json": "{\"a\": [1, {}]}",
    "html": "<b>", "nested": {"role": "user", "content": "Yo"}})json");
  variables.markup["bos"] = "<s>";
  variables.markup["user_copy"] = "mine";
  variables.markup["flag"] = true;
  return variables;
}

// Content is shown in brackets.
constexpr Case kContentCases[] = {
    {"{{ bos }}a{{ user }}b", "<s>a[Hi <|im_end|>]b"},
    {"{{ 'a' + user + 'b' ~ bos }}", "a[Hi <|im_end|>]b<s>"},
    {"{{ (bos + user)[1:5] }}", "s>[Hi]"},
    {"{{ (bos + user)|upper }}", "<S>[HI <|IM_END|>]"},
    {"{{ (bos ~ list[0] ~ '-')[::-1] }}", "-[x]>s<"},
    {"{{ spaced|trim }}|{{ spaced.strip() }}|{{ spaced.split()[1] }}",
     "[a b]|[a b]|[b]"},
    {"{{ ('<' + user + '>').strip('<>') }}", "[Hi <|im_end|]"},
    {"{{ user.replace('Hi', '<s>') }}", "<s>[ <|im_end|>]"},
    {"{{ '<X>'.replace('X', user) }}", "<[Hi <|im_end|>]>"},
    {"{{ list|join(', ') }}", "[x], [y]"},
    {"{{ ', '.join(list) }}", "[x], [y]"},
    {"{{ ['<', user, '>']|join }}", "<[Hi <|im_end|>]>"},
    {"{{ '%s: %d' % (list[0], number) }}", "[x]: [42]"},
    {"{{ '{}-{a}'.format(list[0], a=bos) }}", "[x]-<s>"},
    {"{{ '%5s|' % list[0] }}", "    [x]|"},
    {"{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(user) }}",
     "<[Hi <|im_end|>]>"},
    {"{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(user)|lower }}",
     "<[hi <|im_end|>]>"},
    {"{% set x %}<{{ list[0] }}>{% endset %}{{ x + bos }}", "<[x]><s>"},
    {"{% set x | upper %}<a{{ list[0] }}>{% endset %}{{ x }}", "<A[X]>"},
    {"{% filter upper %}<a{{ list[0] }}>{% endfilter %}", "<A[X]>"},
    {"{% for c in bos + list[0] %}{{ c }},{% endfor %}", "<,s,>,[x],"},
    {"{% for k in call.arguments %}{{ k }};{% endfor %}", "[k<1>];[n];"},
    {"{{ call.arguments.items()|list|first|join('=') }}", "[k<1>]=[v]"},
    {"{{ number }}{{ number + 1 }}{{ 1 }}", "[4243]1"},
    {"{{ big }} {{ big is number }}", "[18446744073709551615] True"},
    // What is made of content in whole is content.
    {"{{ call|tojson }}",
     "[{\"name\": \"f\", \"arguments\": {\"k<1>\": \"v\", \"n\": 3}}]"},
    {"{{ {'a': bos}|tojson }}{{ {'a': list[0]}|tojson }}",
     "{\"a\": \"<s>\"}[{\"a\": \"x\"}]"},
    {"{{ list }}{{ [bos] }}{{ [bos, list[1]] }}",
     "[['x', 'y']]['<s>'][['<s>', 'y']]"},
    {"{{ call|string }}",
     "[{'name': 'f', 'arguments': {'k<1>': 'v', 'n': 3}}]"},
    {"{{ (json|from_json).a }}", "[[1, {}]]"},
    {"{{ ('<' + html)|e }}", "&lt;[&lt;b&gt;]"},
    {"{{ (bos + list[0])|indent(2, true) }}", "  <s>[x]"},
    {"{{ (list[0] + ' y')|capitalize }}{{ ('a ' + list[0])|title }}",
     "[X] yA [X]"},
    {"{{ 'a'.center(3, list[0]) }}{{ '7'.zfill(3) }}", "[x]a[x]007"},
    {"{{ [1, 2]|tojson(separators=(list[0], ':')) }}", "[[1x2]]"},
    {"{{ [1]|tojson(indent=list[1]) }}", "[[\ny1\n]]"},
    {"{{ '%s' % list }}{{ list|first ~ 1.5 }}", "[['x', 'y']x]1.5"},
    {"{{ number|string }}{{ number * 1.0 }}{{ '7'|int }}", "[4242.0]7"},
    {"{{ list|sort|join }}{{ call.items()|list }}",
     "[xy[('name', 'f'), ('arguments', {'k<1>': 'v', 'n': 3})]]"},
    // Markup wins over content of the same name.
    {"{{ user_copy }}", "mine"},
};

TEST(TemplateTest, ContentStaysContent) {
  for (const Case& test : kContentCases) {
    EXPECT_EQ(ShowContent(test.source, SomeVariables()), test.expected)
        << test.source;
  }
}

TEST(TemplateTest, AppendingDoesNotChangeOtherTexts) {
  EXPECT_EQ(RenderText("{% set a = 'x' + 'y' %}{% set b = a + '1' %}"
                       "{% set c = a + '2' %}{% set d = b + b %}"
                       "{{ a }} {{ b }} {{ c }} {{ d }}"),
            "xy xy1 xy2 xy1xy1");
}

constexpr Case kLanguageCases[] = {
    {"a\r\nb\rc\r\n", "a\nb\nc"},
    {"{{ -2 ** 2 }} {{ 2 ** 3 ** 2 }} {{ 2 ** -1 }}", "4 64 0.5"},
    {"{{ 7 % -3 }} {{ -7 // 2 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }}",
     "-2 -4 3.0 0.5"},
    {"{{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1e-7 }}", "31 5 15 1e-07"},
    {"{{ 'abc'[-2:] }} {{ 'abc'[5:] }}|{{ [1, 2, 3][::-2] }}", "bc |[3, 1]"},
    {"{{ 'stra\xc3\x9f"
     "e'|upper }} {{ '\xc3\x84\xd0\x96'|lower }}",
     "STRASSE \xc3\xa4\xd0\xb6"},
    {"{{ 1 if false is defined else 2 }}", "1"},
    {"{{ [1, [2, {'a': none}]] == [1.0, [2, {'a': none}]] }}", "True"},
    {"{{ (1, 2) < (1, 3) }} {{ 'b' >= 'a' }}", "True True"},
    {"{{ {1: 'a', true: 'b', 1.0: 'c'} }}", "{1: 'c'}"},
    {"{{ {'a': 1, 'b': 2, 'a': 3} }}", "{'a': 3, 'b': 2}"},
    {"{% set d = dict(a=1) %}{{ d.a }}{{ d['a'] }}{{ d.get('b', 2) }}", "112"},
    {"{% for i in range(12) %}{% set _ = 0 %}{{ loop.index0 }}"
     "{% if loop.index == 2 %}{% break %}{% endif %}{% endfor %}",
     "01"},
    {"{% for a, b in {'x': 1}.items() %}{{ a }}{{ b }}{% endfor %}", "x1"},
    {"{% for (a, b) in [(1, 2)] %}{{ a + b }}{% endfor %}", "3"},
    {"{% set x, y = 'ab' %}{{ y }}{{ x }}", "ba"},
    {"{% set l = [1] %}{% set _ = l.append(2) %}{{ l.pop(0) }}{{ l }}", "1[2]"},
    {"{% for x in [3, 1, 2]|sort(reverse=true) %}{{ x }}{% endfor %}", "321"},
    {"{{ [{'a': 2, 'b': 1}, {'a': 1, 'b': 2}]|sort(attribute='a')"
     "|map(attribute='b')|join }}",
     "21"},
    {"{{ [('b', 1), ('a', 1)]|sort(attribute='1,0')|first|first }}", "a"},
    {"{{ range(10)|batch(4, 'x')|list|last }}", "[8, 9, 'x', 'x']"},
    {"{{ [1, 2, 3, 4]|select('divisibleby', 2)|sum }}", "6"},
    {"{{ none|selectattr('a')|list }}{{ missing|map('upper')|list }}", "[][]"},
    {"{{ 'x'.foo is defined }} {{ 'x'.upper is defined }}", "False True"},
    {"{{ {'copy': 1}['copy'] }} {{ {'copy': 1}.copy is callable }}", "1 True"},
    {"{% macro f(a, b=a ~ '!') %}{{ b }}{% endmacro %}{{ f('x') }}", "x!"},
    {"{% for i in [1, 2] %}{% macro f() %}{{ i }}{% endmacro %}"
     "{{ f() }}{% endfor %}",
     "12"},
    {"{% raw %}{{ x }}{% endraw %}", "{{ x }}"},
    {"{% with a = 1 %}{{ a }}{% endwith %}{{ a is defined }}", "1False"},
    {"{{ '\\xe9\\u00e9\\351\\q' }}", "\xc3\xa9\xc3\xa9\xc3\xa9\\q"},
    {"{{ '\\ud83d\\ude00' }}", "\xf0\x9f\x98\x80"},
    {"{{ ['a\xff']|tojson }}{{ ['\xff']|tojson(ensure_ascii=true) }}",
     "[\"a\xff\"][\"\\ufffd\"]"},
    {"{{ 1.5|round }} {{ 0.125|round(2) }} {{ 1234.5|round(-2) }}",
     "2.0 0.12 1200.0"},
    {"{{ '%05.2f|%-4d|%+d|%x|%s%%' % (3.14159, 7, 5, 255, 'a') }}",
     "03.14|7   |+5|ff|a%"},
    {"{{ strftime_now('%-d %B %Y, %I %p') }}", "5 March 2026, 09 AM"},
    {"{{ {'b': 1, 'a': 2}|tojson(sort_keys=true, indent=2) }}",
     "{\n  \"a\": 2,\n  \"b\": 1\n}"},
    {"{{ loop is defined }}", "False"},
    {"{% set l = [] %}{% set m = l * 2 %}{% set _ = m.append(1) %}{{ l }}",
     "[]"},
    // Exact, and one order: NaN is behind all numbers.
    {"{{ 18446744073709551615 < 18446744073709551616.0 }} "
     "{{ 9223372036854775809 > 9223372036854775808.0 }} "
     "{{ 9223372036854775808 == 9223372036854775808.0 }}",
     "True True True"},
    {"{% set n = 'nan'|float %}{{ [2, n, 1.0, n, 2.0, 1]|unique|list }}",
     "[2, nan, 1.0]"},
    // Longer than what is mapped at once, cut within characters.
    {"{% set s = 'x' ~ '\\xe9' * 5000 %}{{ s|upper == 'X' ~ '\\xc9' * 5000 }}"
     "{{ s|capitalize == 'X' ~ '\\xe9' * 5000 }}"
     "{{ s|tojson|length }} {{ [s]|string|length }}",
     "TrueTrue5003 5005"},
};

TEST(TemplateTest, Language) {
  for (const Case& test : kLanguageCases) {
    EXPECT_EQ(RenderText(test.source), test.expected) << test.source;
  }
}

constexpr Case kErrorCases[] = {
    {"a\n{{ 'x'|wordwrap }}",
     "line 2: the filter 'wordwrap' is not among those that templates have "
     "here"},
    {"{{ 1 is\n prime }}",
     "line 1: the test 'prime' is not among those that templates have here"},
    {"\n\n{{ 'x'.encode() }}",
     "line 3: the method 'encode' of str is not among those that templates "
     "have here"},
    {"{% include 'x' %}",
     "line 1: the statement 'include' is not among those that templates have "
     "here"},
    {"\n{% for x in y recursive %}{% endfor %}",
     "line 2: a 'for' that is 'recursive' is not among what templates have "
     "here"},
    {"{{ f(*x) }}",
     "line 1: arguments with '*' are not among what templates have here"},
    {"{% nope %}", "line 1: there is no statement 'nope'"},
    {"{% if x %}\n\n{% for y in z %}{% endif %}",
     "line 3: 'endif' belongs to nothing here"},
    {"\n{% if x %}", "line 2: 'if' is not closed"},
    {"{{ x", "line 1: '{{' is not closed"},
    {"\n{# x", "line 2: a comment is not closed"},
    {"{% raw %}x", "line 1: 'raw' is not closed"},
    {"{{ 'x }}", "line 1: a text is not closed"},
    {"{{ (1 }}", "line 1: '}' stands where ')' is due"},
    {"{{ }}", "line 1: an expression is missing before '}}'"},
    {"{{ a b }}", "line 1: '}}' is missing before 'b'"},
    {"{{ ? }}", "line 1: '?' means nothing here"},
    {"{% break %}", "line 1: 'break' outside of a 'for'"},
    {"{{ missing.x }}", "line 1: 'missing' is undefined"},
    {"{{ {}.a.b }}", "line 1: 'dict object' has no attribute 'a'"},
    {"{{ missing() }}", "line 1: 'missing' is undefined"},
    {"{{ 'a' + 1 }}", "line 1: '+' does not go between str and int"},
    {"{{ 1 +\n 1 // 0 }}", "line 2: '//' by zero"},
    {"{{ 1 % 0 }}", "line 1: '%' by zero"},
    {"{{ 1.0 / 0 }}", "line 1: '/' by zero"},
    {"{{ 9223372036854775807 + 1 }}", "line 1: an integer past 64 bits"},
    {"{{ (-9223372036854775807 - 1) // -1 }}",
     "line 1: an integer past 64 bits"},
    {"{{ 3 ** 41 }}", "line 1: an integer past 64 bits"},
    {"{{ 99999999999999999999 }}",
     "line 1: 99999999999999999999 is past 64 bits"},
    {"{% for x in 3 %}{% endfor %}", "line 1: there are no items in int"},
    {"{% set x.y = 1 %}", "line 1: 'x.y' cannot be set: 'x' is Undefined"},
    {"{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}",
     "line 1: the macro 'f' has 1 parameters, and gets 2"},
    {"{{ 'x'|indent(1, 2, 3, 4) }}",
     "line 1: the filter 'indent': 4 arguments, more than 3"},
    {"{{ 'x'|replace('x') }}",
     "line 1: the filter 'replace': the argument 'new' is missing"},
    {"{{ 'a'.split('') }}", "line 1: the method 'split': an empty separator"},
    {"{{ [1, 'a']|sort }}",
     "line 1: the filter 'sort': '<' does not go between str and int"},
    {"{{ []|select('a' * 65) }}",
     "line 1: the filter 'select': a name of 65 bytes is not among those that "
     "templates have here"},
    {"{{ []|map('a' * 65) }}",
     "line 1: the filter 'map': a name of 65 bytes is not among those that "
     "templates have here"},
    {"{{ 1|tojson(indent=' ' * 1001) }}",
     "line 1: the filter 'tojson': an indent or a separator of 1001 bytes"},
    {"{{ 1|tojson(separators=(',', ' ' * 1001)) }}",
     "line 1: the filter 'tojson': an indent or a separator of 1001 bytes"},
    // The template's own words, as they are.
    {"\n{{ raise_exception('Be nice: ' ~ 1) }}", "Be nice: 1"},
};

TEST(TemplateTest, ErrorsSayWhatAndWhere) {
  for (const Case& test : kErrorCases) {
    EXPECT_EQ(RenderText(test.source), "ERROR: " + std::string(test.expected))
        << test.source;
  }
}

TEST(TemplateTest, ErrorCodes) {
  const auto code_of = [](std::string_view source) {
    return RenderParts(source).error().code;
  };
  EXPECT_EQ(code_of("{{ raise_exception('x') }}"), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of("{{ 1|nope }}"), ErrorCode::kUnsupported);
  EXPECT_EQ(code_of("{% call f() %}{% endcall %}"), ErrorCode::kUnsupported);
  EXPECT_EQ(code_of("{{ x.y }}"), ErrorCode::kCorrupt);
  EXPECT_EQ(code_of("{{ "), ErrorCode::kCorrupt);
  EXPECT_EQ(code_of("{{ 'a' * 10000000000 }}"), ErrorCode::kResourceExhausted);
  // A filter that is not there may stand where nothing gets.
  EXPECT_EQ(RenderText("{% if false %}{{ 1|nope }}{% endif %}x"), "x");
}

// Bytes that are no UTF-8 pass, and each counts as a character.
TEST(TemplateTest, InvalidUtf8) {
  Variables variables;
  variables.content["x"] = "a\xff\xc3";
  EXPECT_EQ(RenderText("{{ x }}{{ x|length }}{{ x[::-1] }}{{ x|upper }}"
                       "{{ x|tojson }}{{ [x] }}",
                       variables),
            "a\xff\xc3"
            "3\xc3\xff"
            "aA\xff\xc3"
            "\"a\xff\xc3\"['a\xff\xc3']");
}

// What a loop appends to costs what is appended, not what is there already.
TEST(TemplateTest, AppendingInALoopIsLinear) {
  Variables variables;
  variables.content["x"] = std::string(1000, 'x');
  Limits limits;
  limits.num_bytes = 20'000'000;  // a tenth of what copies would take
  EXPECT_EQ(RenderText("{% set ns = namespace(a='') %}"
                       "{% for i in range(1000) %}"
                       "{% set ns.a = ns.a + '<' ~ x + '>' %}{% endfor %}"
                       "{{ ns.a|length }}",
                       variables, limits),
            "1002000");
}

TEST(TemplateTest, ManyKeys) {
  Variables variables;
  std::string expected;
  for (int i = 0; i < 100; ++i) {
    variables.content["d"][std::to_string(i)] = i;
    expected += std::to_string(i) + ",";
  }
  EXPECT_EQ(RenderText("{% for k in d %}{{ d[k] }},{% endfor %}", variables),
            expected);
}

TEST(TemplateTest, MovedTemplateRenders) {
  auto first = Template::Parse("{{ x }}");
  ASSERT_TRUE(first.has_value());
  const Template second = std::move(*first);
  Variables variables;
  variables.markup["x"] = 1;
  EXPECT_EQ(Joined(second.Render(variables).value()), "1");
  EXPECT_TRUE(second.Render({}).value().empty());
}

// Any front part of a template renders or is refused, with a line.
TEST(TemplateTest, CutOffAnywhere) {
  const std::string source =
      "{%- macro f(a, b='x') -%}{{ a|default('y')|upper ~ b[1:] }}"
      "{%- endmacro -%}{% for k, v in {'a': [1, 2.5]}.items() if v is "
      "iterable %}{# c #}{% set ns = namespace(x=1) %}{% set ns.x = f(k) "
      "%}{% raw %}{{{% endraw %}{{ ns.x if not k else (v, -v[0]) }}"
      "{% elif %}";
  for (size_t size = 0; size <= source.size(); ++size) {
    const auto parts = RenderParts(source.substr(0, size));
    if (parts.has_value()) continue;
    EXPECT_TRUE(parts.error().message.starts_with("line 1: "))
        << parts.error().message;
  }
}

}  // namespace
}  // namespace thermocline::text::jinja

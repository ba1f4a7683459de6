// Any JSON is a template's variables: the first byte chooses one of a few
// templates, which between them do all that templates do with values.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "text/jinja/template.h"

namespace {

using thermocline::text::jinja::Json;
using thermocline::text::jinja::RenderOptions;
using thermocline::text::jinja::Template;
using thermocline::text::jinja::Variables;

// Long ones in several pieces.
// NOLINTBEGIN(bugprone-suspicious-missing-comma)
constexpr std::string_view kTemplates[] = {
    "{% for m in x %}<|{{ m.role }}|>{% if m.content is string %}"
    "{{ m.content|trim }}{% elif m.content is iterable %}"
    "{% for p in m['content'] %}{{ p.text or p['type'] }}{% endfor %}"
    "{% endif %}{% for t in m.tool_calls or [] %}{{ t.function.name ~ ':' ~ "
    "(t.function.arguments|tojson) }}{% endfor %}{% endfor %}",
    "{{ x }}{{ x|tojson(indent=2) }}{{ x|tojson(ensure_ascii=true, "
    "sort_keys=true) }}{{ x|string|length }}{{ x == y }}{{ [x] == [y] }}",
    "{% macro show(v, n) %}{% if v is mapping %}{% for k, w in v.items() %}"
    "{{ k }}={{ show(w, n + 1) }};{% endfor %}{% elif v is string %}"
    "{{ v.split('a')[-1][1:]|upper }}{% elif v is sequence %}{% for w in v %}"
    "{{ show(w, n + 1) }}{{ loop.last }}{% endfor %}{% else %}{{ v }}"
    "{% endif %}{% endmacro %}{{ show(x, 0) }}",
    "{{ x|dictsort }}{{ x|items|list }}{{ x.get('a', x) }}{{ x['b'] }}",
    "{{ x|sort|join(',') }}{{ x|unique|list }}{{ x|min }}{{ x|max }}"
    "{{ x|map(attribute='a')|list }}{{ x|selectattr('a', '>', 1)|list }}",
    "{{ x + y }}{{ x * 2 }}{{ x - y }}{{ x // y }}{{ x % y }}{{ x ** y }}",
    "{{ x|int }}{{ x|float }}{{ x|round(2) }}{{ x|abs }}{{ x < y }}",
    "{{ x|from_json }}",
    "{{ x % y }}{{ x|format(y, y) }}{{ x.format(y, a=y) }}",
    "{{ x.strip(y) }}{{ x.split(y) }}{{ x.rsplit(none, 2) }}{{ x.replace(y, "
    "'<' ~ y, 3) }}{{ x|title }}{{ x|capitalize }}{{ x|indent(2, true) }}"
    "{{ x[::-1] }}{{ x[1:-1] }}{{ x|e }}{{ x|urlencode }}{{ x|wordcount }}"
    "{{ x|striptags }}{{ x|truncate(9) }}{{ x.splitlines() }}{{ y in x }}",
};
// NOLINTEND(bugprone-suspicious-missing-comma)

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<Template> kParsed = [] {
    std::vector<Template> parsed;
    for (const std::string_view source : kTemplates) {
      auto one = Template::Parse(source);
      TC_CHECK(one.has_value());
      parsed.push_back(*std::move(one));
    }
    return parsed;
  }();
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1),
                               size - 1);
  Json json = Json::parse(bytes, nullptr, false);
  if (json.is_discarded()) return 0;
  Variables variables;
  if (json.is_object() && json.contains("x")) {
    variables.content = std::move(json);
  } else {
    variables.content["x"] = json;
    variables.content["y"] = std::move(json);
  }
  RenderOptions options;
  options.limits = {
      .num_steps = 20'000, .num_bytes = 1'000'000, .depth = 20, .nesting = 40};
  const Template& parsed = kParsed[data[0] % kParsed.size()];
  const auto parts = parsed.Render(variables, options);
  if (!parts.has_value()) return 0;
  for (const auto& part : *parts) TC_CHECK(!part.text.empty());
  return 0;
}

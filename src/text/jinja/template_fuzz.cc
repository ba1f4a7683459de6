// Any bytes are a template: rendered or refused within small limits, and no
// byte of content is ever taken for markup.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "text/jinja/template.h"

namespace {

using thermocline::text::jinja::Json;
using thermocline::text::jinja::RenderOptions;
using thermocline::text::jinja::Template;
using thermocline::text::jinja::Variables;

// Of characters that templates do not have but by escapes.
constexpr std::string_view kContentOnly = "\x01\x02\x03";

Variables MakeVariables() {
  Variables variables;
  const Json part = {{"type", "text"}, {"text", "\x01 \x02"}};
  const Json call = {{"name", "\x02"}, {"arguments", {{"\x03", {1, 2.5}}}}};
  variables.content["messages"] = {
      {{"role", "\x01"}, {"content", "\x01\n\x02,\x03"}},
      {{"role", "\x02"}, {"content", {part, part}}},
      {{"content", nullptr}, {"tool_calls", {call}}}};
  variables.content["s"] = "\x03\x01 \x02";
  variables.content["d"] = call;
  variables.content["l"] = {"\x01", "\x02", true, nullptr};
  variables.markup["bos_token"] = "<s>";
  variables.markup["n"] = 3;
  return variables;
}

bool MayMakeContent(std::string_view source) {
  return source.find_first_of(kContentOnly) != std::string_view::npos ||
         source.find('\\') != std::string_view::npos;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Variables kVariables = MakeVariables();
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const thermocline::text::jinja::Limits limits = {
      .num_steps = 20'000, .num_bytes = 1'000'000, .depth = 10, .nesting = 40};
  const auto parsed = Template::Parse(source, limits);
  if (!parsed.has_value()) return 0;
  const auto parts =
      parsed->Render(kVariables, RenderOptions{.limits = limits});
  if (!parts.has_value()) return 0;
  const bool may_make_content = MayMakeContent(source);
  for (size_t i = 0; i < parts->size(); ++i) {
    const auto& part = (*parts)[i];
    TC_CHECK(!part.text.empty());
    TC_CHECK(i == 0 || part.is_markup != (*parts)[i - 1].is_markup);
    TC_CHECK(!part.is_markup || may_make_content ||
             part.text.find_first_of(kContentOnly) == std::string::npos);
  }
  return 0;
}

#include "text/jinja/template.h"

#include <utility>

#include "text/jinja/evaluator.h"
#include "text/jinja/parser.h"
#include "text/jinja/runtime.h"

namespace thermocline::text::jinja {

struct Template::Program {
  Parsed parsed;
};

Template::Template(std::unique_ptr<const Program> program)
    : program_(std::move(program)) {}
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;
Template::~Template() = default;

Result<Template> Template::Parse(std::string_view source,
                                 const Limits& limits) {
  TC_ASSIGN_OR_RETURN(Parsed parsed, ParseTemplate(source, limits.nesting));
  return Template(std::make_unique<const Program>(Program{std::move(parsed)}));
}

Result<std::vector<TextPart>> Template::Render(
    const Variables& variables, const RenderOptions& options) const {
  Runtime runtime(options.limits, options.now);
  Evaluator evaluator(program_->parsed, runtime);
  TC_RETURN_IF_ERROR(evaluator.Load(variables));
  return evaluator.Run();
}

}  // namespace thermocline::text::jinja

#include "text/jinja/evaluator.h"

#include <algorithm>
#include <string>
#include <utility>

#include "text/jinja/access.h"
#include "text/jinja/builtins.h"
#include "text/jinja/evaluator_guards.h"
#include "text/jinja/json_variable.h"
#include "text/jinja/operators.h"
#include "text/jinja/template.h"

namespace thermocline::text::jinja {
namespace {

int IndexOfName(const std::vector<std::string>& names, std::string_view name) {
  const auto at = std::find(names.begin(), names.end(), name);
  return at == names.end() ? -1 : static_cast<int>(at - names.begin());
}

// Of statements and expressions, for each macro that may be open.
constexpr int kLevelsPerMacro = 16;

}  // namespace

Evaluator::Evaluator(const Parsed& parsed, Runtime& runtime)
    : parsed_(parsed),
      runtime_(runtime),
      loop_name_(IndexOfName(parsed.names, "loop")),
      varargs_name_(IndexOfName(parsed.names, "varargs")),
      kwargs_name_(IndexOfName(parsed.names, "kwargs")),
      root_values_(parsed.names.size(), Unset()),
      levels_left_(runtime.limits().nesting +
                   kLevelsPerMacro * runtime.limits().depth) {
  for (size_t i = 0; i < parsed.names.size(); ++i) {
    if (const FunctionEntry* function = FindFunction(parsed.names[i])) {
      root_values_[i] = {.kind = Kind::kFunction};
      root_values_[i].function = function;
    }
  }
}

Status Evaluator::Load(const Variables& variables) {
  for (const bool is_content : {true, false}) {
    const Json& object = is_content ? variables.content : variables.markup;
    if (!object.is_object()) continue;
    for (size_t i = 0; i < parsed_.names.size(); ++i) {
      const auto found = object.find(parsed_.names[i]);
      if (found == object.end()) continue;
      const Result<Value> value = FromJson(runtime_, *found, is_content);
      if (!value.has_value()) {
        return Annotate(fmt::format("the variable '{}'", parsed_.names[i]),
                        value.error());
      }
      root_values_[i] = *value;
    }
  }
  return runtime_.Check();
}

Result<std::vector<TextPart>> Evaluator::Run() {
  Buffer* const buffer = runtime_.NewBuffer();
  TextBuilder out(runtime_, buffer);
  out_ = &out;
  const Result<Flow> flow = RunBody(parsed_.body);
  if (const Status status = runtime_.Check(); !status.has_value()) {
    return WithLine(status.error());
  }
  if (!flow.has_value()) return WithLine(flow.error());
  return PartsOf(*buffer);
}

tl::unexpected<Error> Evaluator::WithLine(const Error& error) const {
  if (error.code == ErrorCode::kInvalidArgument) return tl::unexpected(error);
  return Annotate(fmt::format("line {}", line_), error);
}

Status Evaluator::Tick() {
  if (runtime_.Work(1)) return {};
  return runtime_.Check();
}

Value Evaluator::Lookup(int name) {
  for (const Scope* scope = scope_; scope != &root_; scope = scope->parent) {
    runtime_.Work(scope->values.size() / 16);
    for (const auto& [candidate, value] : scope->values) {
      if (candidate == name) return value;
    }
  }
  const Value& value = root_values_[static_cast<size_t>(name)];
  if (value.kind != Kind::kUnset) return value;
  return Undefined(parsed_.names[static_cast<size_t>(name)], nullptr);
}

void Evaluator::Assign(int name, const Value& value) {
  if (scope_ == &root_) {
    root_values_[static_cast<size_t>(name)] = value;
    return;
  }
  runtime_.Work(scope_->values.size() / 16);
  for (auto& [candidate, old] : scope_->values) {
    if (candidate == name) {
      old = value;
      return;
    }
  }
  if (runtime_.Charge(sizeof(scope_->values[0]))) {
    scope_->values.emplace_back(name, value);
  }
}

Status Evaluator::AssignTo(const Target& target, const Value& value) {
  if (target.attribute.empty()) {
    Assign(target.name, value);
    return {};
  }
  const Value object = Lookup(target.name);
  if (object.kind != Kind::kNamespace || target.attribute.starts_with('_')) {
    return Fail(
        ErrorCode::kCorrupt, "'{}.{}' cannot be set: '{}' is {}",
        parsed_.names[static_cast<size_t>(target.name)], target.attribute,
        parsed_.names[static_cast<size_t>(target.name)], TypeName(object));
  }
  runtime_.SetItem(object.dict, OutsideText(target.attribute, false), value);
  return {};
}

Status Evaluator::AssignAll(const std::vector<int>& names, bool unpacks,
                            const Value& value) {
  if (!unpacks) {
    Assign(names[0], value);
    return {};
  }
  TC_ASSIGN_OR_RETURN(const auto items, ItemsOf(runtime_, value));
  if (items.size() != names.size()) {
    return Fail(ErrorCode::kCorrupt, "{} items for {} names", items.size(),
                names.size());
  }
  for (size_t i = 0; i < names.size(); ++i) Assign(names[i], items[i]);
  return {};
}

Result<Value> Evaluator::CallMacro(const MacroObject& macro, const Args& args) {
  if (macro_depth_ >= runtime_.limits().depth) {
    return Fail(ErrorCode::kResourceExhausted,
                "macros call each other more than {} deep",
                runtime_.limits().depth);
  }
  ++macro_depth_;
  TextBuilder builder(runtime_);
  const int line = line_;
  {
    const InScope in_scope(*this, runtime_.NewScope(macro.scope));
    const IntoBuilder into(*this, &builder);
    TC_RETURN_IF_ERROR(BindMacro(*macro.statement, args));
    TC_RETURN_IF_ERROR(RunBody(macro.statement->body));
  }
  line_ = line;
  --macro_depth_;
  return builder.Finish();
}

Status Evaluator::BindMacro(const MacroStatement& macro, const Args& args) {
  const auto& parameters = macro.parameters;
  for (size_t i = 0; i < parameters.size() && i < args.positional.size(); ++i) {
    Assign(parameters[i].first, args.positional[i]);
  }
  TC_RETURN_IF_ERROR(BindRest(macro, args));
  return BindDefaults(macro);
}

Status Evaluator::BindRest(const MacroStatement& macro, const Args& args) {
  const auto& parameters = macro.parameters;
  const size_t num_bound = std::min(parameters.size(), args.positional.size());
  Value rest = runtime_.NewDict();
  for (const auto& [name, value] : args.named) {
    runtime_.Work(parameters.size() / 16);
    const auto at =
        std::find_if(parameters.begin(), parameters.end(),
                     [&](const auto& entry) { return entry.second == name; });
    if (at == parameters.end() && !macro.takes_kwargs) {
      return Fail(ErrorCode::kCorrupt, "the macro '{}' has no parameter '{}'",
                  macro.own_name, name);
    }
    if (at == parameters.end()) {
      runtime_.SetItem(rest.dict, OutsideText(name, false), value);
    } else if (at - parameters.begin() < static_cast<ptrdiff_t>(num_bound)) {
      return Fail(ErrorCode::kCorrupt,
                  "the macro '{}' gets its parameter '{}' twice",
                  macro.own_name, name);
    } else {
      Assign(at->first, value);
    }
  }
  if (args.positional.size() > num_bound && !macro.takes_varargs) {
    return Fail(ErrorCode::kCorrupt,
                "the macro '{}' has {} parameters, and gets {}", macro.own_name,
                parameters.size(), args.positional.size());
  }
  if (macro.takes_kwargs) Assign(kwargs_name_, rest);
  if (macro.takes_varargs) {
    Assign(varargs_name_,
           runtime_.NewTuple(
               {args.positional.begin() + static_cast<ptrdiff_t>(num_bound),
                args.positional.end()}));
  }
  return {};
}

Status Evaluator::BindDefaults(const MacroStatement& macro) {
  const auto& parameters = macro.parameters;
  const size_t num_plain = parameters.size() - macro.defaults.size();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& values = scope_->values;
    runtime_.Work(values.size() / 16);
    const bool is_bound = std::any_of(
        values.begin(), values.end(),
        [&](const auto& entry) { return entry.first == parameters[i].first; });
    if (is_bound) continue;
    if (i < num_plain) {
      Assign(parameters[i].first, Undefined(parameters[i].second, nullptr));
    } else {
      TC_ASSIGN_OR_RETURN(const Value value,
                          Evaluate(macro.defaults[i - num_plain]));
      Assign(parameters[i].first, value);
    }
  }
  return {};
}

}  // namespace thermocline::text::jinja

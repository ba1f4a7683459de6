#include <variant>

#include "text/jinja/access.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/evaluator_guards.h"
#include "text/jinja/printing.h"

namespace thermocline::text::jinja {

Result<Evaluator::Flow> Evaluator::RunBody(const Body& body) {
  const Level level(*this);
  TC_RETURN_IF_ERROR(level.Check());
  for (const Statement& statement : body) {
    TC_ASSIGN_OR_RETURN(const Flow flow, RunStatement(statement));
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::RunInScope(const Body& body) {
  const InScope in_scope(*this, runtime_.NewScope(scope_));
  return RunBody(body);
}

Result<Evaluator::Flow> Evaluator::RunStatement(const Statement& statement) {
  line_ = statement.line;
  TC_RETURN_IF_ERROR(Tick());
  return std::visit([this](const auto& what) { return RunIt(what); },
                    statement.what);
}

Result<Evaluator::Flow> Evaluator::RunIt(const TextStatement& statement) {
  out_->Append(statement.text, false);
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::RunIt(const PrintStatement& statement) {
  TC_ASSIGN_OR_RETURN(const Value value, Evaluate(statement.value));
  TC_ASSIGN_OR_RETURN(const Value text, ToText(runtime_, value));
  out_->Append(text);
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::RunIt(const IfStatement& statement) {
  for (const auto& [condition, body] : statement.branches) {
    TC_ASSIGN_OR_RETURN(const Value value, Evaluate(condition));
    if (IsTrue(value)) return RunBody(body);
  }
  return RunBody(statement.otherwise);
}

Result<std::vector<Value>> Evaluator::LoopItems(const ForStatement& statement) {
  TC_ASSIGN_OR_RETURN(const Value iterated, Evaluate(statement.items));
  line_ = statement.items.line;
  TC_ASSIGN_OR_RETURN(auto items, ItemsOf(runtime_, iterated));
  if (statement.condition == nullptr) return items;
  std::vector<Value> selected;
  for (const Value& item : items) {
    const InScope in_scope(*this, runtime_.NewScope(scope_));
    TC_RETURN_IF_ERROR(AssignAll(statement.targets, statement.unpacks, item));
    TC_ASSIGN_OR_RETURN(const Value is_in, Evaluate(*statement.condition));
    if (IsTrue(is_in)) selected.push_back(item);
  }
  runtime_.GiveBack((items.size() - selected.size()) * sizeof(Value));
  return selected;
}

Result<Evaluator::Flow> Evaluator::RunIt(const ForStatement& statement) {
  TC_ASSIGN_OR_RETURN(auto items, LoopItems(statement));
  if (items.empty()) return RunInScope(statement.otherwise);
  const size_t size = items.size();
  Loop* const loop =
      runtime_.New(&runtime_.loops, {.items = std::move(items), .size = size});
  TC_ASSIGN_OR_RETURN(const Flow flow, RunRounds(statement, loop));
  // Loops within loops would keep a copy for each round.
  loop->items = {};
  runtime_.GiveBack(size * sizeof(Value));
  return flow;
}

Result<Evaluator::Flow> Evaluator::RunRounds(const ForStatement& statement,
                                             Loop* loop) {
  Value loop_value{.kind = Kind::kLoop};
  loop_value.loop = loop;
  Scope* scope = runtime_.NewScope(scope_);
  for (loop->index = 0; loop->index < loop->items.size(); ++loop->index) {
    TC_RETURN_IF_ERROR(Tick());
    // What a round has set ends with it, but for macros that have seen it.
    if (scope->is_captured) scope = runtime_.NewScope(scope_);
    scope->values.clear();
    const InScope in_scope(*this, scope);
    if (loop_name_ >= 0) Assign(loop_name_, loop_value);
    TC_RETURN_IF_ERROR(AssignAll(statement.targets, statement.unpacks,
                                 loop->items[loop->index]));
    TC_ASSIGN_OR_RETURN(const Flow flow, RunBody(statement.body));
    if (flow == Flow::kBreak) break;
  }
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::RunIt(const SetStatement& statement) {
  const int line = line_;
  TC_ASSIGN_OR_RETURN(const Value value, Evaluate(statement.value));
  line_ = line;
  if (!statement.unpacks) {
    TC_RETURN_IF_ERROR(AssignTo(statement.targets[0], value));
    return Flow::kNext;
  }
  TC_ASSIGN_OR_RETURN(const auto items, ItemsOf(runtime_, value));
  if (items.size() != statement.targets.size()) {
    return Fail(ErrorCode::kCorrupt, "{} items for {} names", items.size(),
                statement.targets.size());
  }
  for (size_t i = 0; i < items.size(); ++i) {
    TC_RETURN_IF_ERROR(AssignTo(statement.targets[i], items[i]));
  }
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::RunIt(const BlockStatement& statement) {
  TextBuilder builder(runtime_);
  {
    const IntoBuilder into(*this, &builder);
    TC_ASSIGN_OR_RETURN(const Flow flow, RunInScope(statement.body));
    if (flow != Flow::kNext) return flow;
  }
  Value value = builder.Finish();
  for (const Step& filter : statement.filters) {
    TC_ASSIGN_OR_RETURN(value, Apply(filter, value));
  }
  if (!statement.target.empty()) {
    TC_RETURN_IF_ERROR(AssignTo(statement.target[0], value));
    return Flow::kNext;
  }
  TC_ASSIGN_OR_RETURN(const Value text, ToText(runtime_, value));
  out_->Append(text);
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::RunIt(const MacroStatement& statement) {
  Value value{.kind = Kind::kMacro};
  value.macro = runtime_.New(&runtime_.macros, {&statement, scope_});
  for (Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    scope->is_captured = true;
  }
  Assign(statement.name, value);
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::RunIt(const WithStatement& statement) {
  Scope* const scope = runtime_.NewScope(scope_);
  std::vector<Value> values;
  for (const auto& [name, expression] : statement.values) {
    TC_ASSIGN_OR_RETURN(const Value value, Evaluate(expression));
    values.push_back(value);
  }
  const InScope in_scope(*this, scope);
  for (size_t i = 0; i < values.size(); ++i) {
    Assign(statement.values[i].first, values[i]);
  }
  return RunBody(statement.body);
}

}  // namespace thermocline::text::jinja

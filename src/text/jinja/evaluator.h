// Runs a template.
//
// By recursion over its tree, whose depth Parse bounds; macros that call each
// other are bounded by Limits.depth, and the two together by levels, so that
// kStackBytes suffice.
#ifndef THERMOCLINE_TEXT_JINJA_EVALUATOR_H_
#define THERMOCLINE_TEXT_JINJA_EVALUATOR_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/jinja/ast.h"
#include "text/jinja/parser.h"
#include "text/jinja/runtime.h"
#include "text/jinja/text_builder.h"
#include "text/jinja/value.h"

namespace thermocline::text::jinja {

struct Variables;

class Evaluator {
 public:
  // Both outlive it.
  Evaluator(const Parsed& parsed, Runtime& runtime);

  // The variables that the template names. `variables` outlives the evaluator.
  Status Load(const Variables& variables);
  // Errors are Template::Render's, with the line.
  Result<std::vector<TextPart>> Run();

 private:
  enum class Flow : uint8_t { kNext, kBreak, kContinue };
  class Level;
  class InScope;
  class IntoBuilder;

  Status Tick();
  tl::unexpected<Error> WithLine(const Error& error) const;

  Value Lookup(int name);
  void Assign(int name, const Value& value);
  Status AssignTo(const Target& target, const Value& value);
  Status AssignAll(const std::vector<int>& names, bool unpacks,
                   const Value& value);

  Result<Flow> RunBody(const Body& body);
  Result<Flow> RunInScope(const Body& body);
  Result<Flow> RunStatement(const Statement& statement);
  Result<Flow> RunIt(const TextStatement& statement);
  Result<Flow> RunIt(const PrintStatement& statement);
  Result<Flow> RunIt(const IfStatement& statement);
  Result<Flow> RunIt(const ForStatement& statement);
  Result<Flow> RunIt(const SetStatement& statement);
  Result<Flow> RunIt(const BlockStatement& statement);
  Result<Flow> RunIt(const MacroStatement& statement);
  Result<Flow> RunIt(const WithStatement& statement);
  Result<Flow> RunIt(const BreakStatement&) { return Flow::kBreak; }
  Result<Flow> RunIt(const ContinueStatement&) { return Flow::kContinue; }
  Result<std::vector<Value>> LoopItems(const ForStatement& statement);
  Result<Flow> RunRounds(const ForStatement& statement, Loop* loop);

  Result<Value> Evaluate(const Expression& expression);
  Result<Value> EvaluateIt(const Literal& literal);
  Result<Value> EvaluateIt(const NameExpression& expression);
  Result<Value> EvaluateIt(const ListExpression& expression);
  Result<Value> EvaluateIt(const DictExpression& expression);
  Result<Value> EvaluateIt(const SignExpression& expression);
  Result<Value> EvaluateIt(const NotExpression& expression);
  Result<Value> EvaluateIt(const ArithmeticExpression& expression);
  Result<Value> EvaluateIt(const ComparisonExpression& expression);
  Result<Value> EvaluateIt(const ConcatExpression& expression);
  Result<Value> EvaluateIt(const LogicExpression& expression);
  Result<Value> EvaluateIt(const ConditionalExpression& expression);
  Result<Value> EvaluateIt(const PostfixExpression& expression);
  Result<Value> EvaluateOrNone(const ExpressionPtr& expression);
  Result<Args> EvaluateArguments(const Arguments& arguments);

  // What a step makes of the value in front of it.
  Result<Value> Apply(const Step& step, const Value& value);
  Result<Value> ApplyIt(const AttributeStep& step, const Value& value);
  Result<Value> ApplyIt(const ItemStep& step, const Value& value);
  Result<Value> ApplyIt(const SliceStep& step, const Value& value);
  Result<Value> ApplyIt(const CallStep& step, const Value& value);
  Result<Value> ApplyIt(const FilterStep& step, const Value& value);
  Result<Value> ApplyIt(const TestStep& step, const Value& value);

  Result<Value> CallMacro(const MacroObject& macro, const Args& args);
  // Parameters, varargs and kwargs into the scope of the call.
  Status BindMacro(const MacroStatement& macro, const Args& args);
  Status BindRest(const MacroStatement& macro, const Args& args);
  Status BindDefaults(const MacroStatement& macro);

  const Parsed& parsed_;
  Runtime& runtime_;
  int loop_name_, varargs_name_, kwargs_name_;  // -1: not in the template
  std::vector<Value> root_values_;              // by name; kUnset: not there
  Scope root_;
  Scope* scope_ = &root_;
  TextBuilder* out_ = nullptr;
  int line_ = 1;  // of what is evaluated, for errors
  int macro_depth_ = 0;
  int levels_left_;
};

}  // namespace thermocline::text::jinja

#endif  // THERMOCLINE_TEXT_JINJA_EVALUATOR_H_

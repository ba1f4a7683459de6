#include <string>
#include <variant>

#include "text/jinja/access.h"
#include "text/jinja/builtins.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/evaluator_guards.h"
#include "text/jinja/operators.h"
#include "text/jinja/printing.h"

namespace thermocline::text::jinja {

Result<Value> Evaluator::Evaluate(const Expression& expression) {
  const Level level(*this);
  line_ = expression.line;
  TC_RETURN_IF_ERROR(level.Check());
  return std::visit([this](const auto& what) { return EvaluateIt(what); },
                    expression.what);
}

Result<Value> Evaluator::EvaluateOrNone(const ExpressionPtr& expression) {
  if (expression == nullptr) return None();
  return Evaluate(*expression);
}

Result<Value> Evaluator::EvaluateIt(const Literal& literal) {
  switch (literal.value.index()) {
    case 0:
      return None();
    case 1:
      return Bool(std::get<bool>(literal.value));
    case 2:
      return Int(std::get<int64_t>(literal.value));
    case 3: {
      Value big{.kind = Kind::kBigInt};
      big.big = std::get<uint64_t>(literal.value);
      return big;
    }
    case 4:
      return Float(std::get<double>(literal.value));
    default:
      return OutsideText(std::get<std::string>(literal.value), false);
  }
}

Result<Value> Evaluator::EvaluateIt(const NameExpression& expression) {
  return Lookup(expression.name);
}

Result<Value> Evaluator::EvaluateIt(const ListExpression& expression) {
  ListBuilder items(runtime_);
  for (const Expression& item : expression.items) {
    TC_ASSIGN_OR_RETURN(const Value value, Evaluate(item));
    items.Add(value);
  }
  return items.Finish(expression.is_tuple ? Kind::kTuple : Kind::kList);
}

Result<Value> Evaluator::EvaluateIt(const DictExpression& expression) {
  Value dict = runtime_.NewDict();
  for (const auto& [key_expression, value_expression] : expression.entries) {
    TC_ASSIGN_OR_RETURN(const Value key, Evaluate(key_expression));
    if (!IsHashable(key)) {
      return Fail(ErrorCode::kCorrupt, "{} is no key", TypeName(key));
    }
    TC_ASSIGN_OR_RETURN(const Value value, Evaluate(value_expression));
    runtime_.SetItem(dict.dict, key, value);
  }
  return dict;
}

Result<Value> Evaluator::EvaluateIt(const SignExpression& expression) {
  const int line = line_;
  TC_ASSIGN_OR_RETURN(const Value operand, Evaluate(*expression.operand));
  line_ = line;
  return Negate(expression.sign, operand);
}

Result<Value> Evaluator::EvaluateIt(const NotExpression& expression) {
  TC_ASSIGN_OR_RETURN(const Value operand, Evaluate(*expression.operand));
  return Bool(!IsTrue(operand));
}

Result<Value> Evaluator::EvaluateIt(const ArithmeticExpression& expression) {
  TC_ASSIGN_OR_RETURN(Value result, Evaluate(*expression.first));
  for (const auto& [op, operand_expression] : expression.rest) {
    TC_ASSIGN_OR_RETURN(const Value operand, Evaluate(operand_expression));
    line_ = operand_expression.line;
    TC_ASSIGN_OR_RETURN(result, Calculate(runtime_, op, result, operand));
  }
  return result;
}

Result<Value> Evaluator::EvaluateIt(const ComparisonExpression& expression) {
  TC_ASSIGN_OR_RETURN(Value left, Evaluate(*expression.first));
  for (const auto& [op, operand_expression] : expression.rest) {
    TC_ASSIGN_OR_RETURN(const Value right, Evaluate(operand_expression));
    line_ = operand_expression.line;
    TC_ASSIGN_OR_RETURN(const bool holds, Compare(runtime_, op, left, right));
    if (!holds) return Bool(false);
    left = right;
  }
  return Bool(true);
}

Result<Value> Evaluator::EvaluateIt(const ConcatExpression& expression) {
  Value result = OutsideText({}, false);
  for (const Expression& item : expression.items) {
    TC_ASSIGN_OR_RETURN(const Value value, Evaluate(item));
    TC_ASSIGN_OR_RETURN(const Value text, ToText(runtime_, value));
    result = Concat(runtime_, result, text);
  }
  result.is_safe = false;
  return result;
}

Result<Value> Evaluator::EvaluateIt(const LogicExpression& expression) {
  Value value;
  for (const Expression& item : expression.items) {
    TC_ASSIGN_OR_RETURN(value, Evaluate(item));
    if (IsTrue(value) != expression.is_and) break;
  }
  return value;
}

Result<Value> Evaluator::EvaluateIt(const ConditionalExpression& expression) {
  TC_ASSIGN_OR_RETURN(const Value condition, Evaluate(*expression.condition));
  if (IsTrue(condition)) return Evaluate(*expression.then);
  if (expression.otherwise != nullptr) return Evaluate(*expression.otherwise);
  return Undefined("what an 'if' without 'else' gives", nullptr);
}

Result<Value> Evaluator::EvaluateIt(const PostfixExpression& expression) {
  TC_ASSIGN_OR_RETURN(Value value, Evaluate(*expression.base));
  for (const Step& step : expression.steps) {
    TC_ASSIGN_OR_RETURN(value, Apply(step, value));
  }
  return value;
}

Result<Args> Evaluator::EvaluateArguments(const Arguments& arguments) {
  Args args;
  for (const Expression& argument : arguments.positional) {
    TC_ASSIGN_OR_RETURN(const Value value, Evaluate(argument));
    args.positional.push_back(value);
  }
  for (const auto& [name, argument] : arguments.named) {
    TC_ASSIGN_OR_RETURN(const Value value, Evaluate(argument));
    args.named.emplace_back(name, value);
  }
  return args;
}

Result<Value> Evaluator::Apply(const Step& step, const Value& value) {
  TC_RETURN_IF_ERROR(Tick());
  line_ = step.line;
  return std::visit([&](const auto& what) { return ApplyIt(what, value); },
                    step.what);
}

Result<Value> Evaluator::ApplyIt(const AttributeStep& step,
                                 const Value& value) {
  return GetAttribute(runtime_, value, step.name);
}

Result<Value> Evaluator::ApplyIt(const ItemStep& step, const Value& value) {
  const int line = line_;
  TC_ASSIGN_OR_RETURN(const Value key, Evaluate(*step.key));
  line_ = line;
  return GetItem(runtime_, value, key);
}

Result<Value> Evaluator::ApplyIt(const SliceStep& step, const Value& value) {
  const int line = line_;
  TC_ASSIGN_OR_RETURN(const Value start, EvaluateOrNone(step.start));
  TC_ASSIGN_OR_RETURN(const Value stop, EvaluateOrNone(step.stop));
  TC_ASSIGN_OR_RETURN(const Value size, EvaluateOrNone(step.step));
  line_ = line;
  return GetSlice(runtime_, value, start, stop, size);
}

Result<Value> Evaluator::ApplyIt(const CallStep& step, const Value& value) {
  const int line = line_;
  TC_ASSIGN_OR_RETURN(const Args args, EvaluateArguments(step.arguments));
  line_ = line;
  if (value.kind == Kind::kMacro) return CallMacro(*value.macro, args);
  return CallBuiltin(runtime_, value, args);
}

Result<Value> Evaluator::ApplyIt(const FilterStep& step, const Value& value) {
  const int line = line_;
  TC_ASSIGN_OR_RETURN(const Args args, EvaluateArguments(step.arguments));
  line_ = line;
  return CallFilter(runtime_, step.name, value, args);
}

Result<Value> Evaluator::ApplyIt(const TestStep& step, const Value& value) {
  const int line = line_;
  TC_ASSIGN_OR_RETURN(const Args args, EvaluateArguments(step.arguments));
  line_ = line;
  TC_ASSIGN_OR_RETURN(const bool holds,
                      CallTest(runtime_, step.name, value, args));
  return Bool(holds != step.is_negated);
}

}  // namespace thermocline::text::jinja

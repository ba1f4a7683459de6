// Python's operators, and what else asks values about each other.
//
// Errors have no line: the evaluator knows it. kCorrupt: what Python refuses;
// kUnsupported: integers past 64 bits.
#ifndef THERMOCLINE_TEXT_JINJA_OPERATORS_H_
#define THERMOCLINE_TEXT_JINJA_OPERATORS_H_

#include <string_view>

#include "base/status.h"
#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace thermocline::text::jinja {

Result<Value> Calculate(Runtime& runtime, Operator op, const Value& a,
                        const Value& b);
// `op` is kAdd (the sign +) or kSubtract.
Result<Value> Negate(Operator op, const Value& value);
Result<bool> Compare(Runtime& runtime, Operator op, const Value& a,
                     const Value& b);

// Never fails; past a limit the runtime is spent, and the answer means nothing.
bool AreEqual(Runtime& runtime, const Value& a, const Value& b);
Result<bool> IsLess(Runtime& runtime, const Value& a, const Value& b);
Result<bool> IsContained(Runtime& runtime, const Value& item,
                         const Value& container);

// The error of an operation that an undefined value does not have.
Status UndefinedError(const Value& value);
// The same, or success for other values.
Status CheckDefined(const Value& value);

// format % value, as C's printf.
Result<Value> FormatPercent(Runtime& runtime, const Value& format,
                            const Value& value);
// format.format(...): {}, {0} and {name}, no more.
Result<Value> FormatBraces(Runtime& runtime, const Value& format,
                           const Args& args);

}  // namespace thermocline::text::jinja

#endif  // THERMOCLINE_TEXT_JINJA_OPERATORS_H_

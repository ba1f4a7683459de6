// What the evaluator changes for as long as a block of its code lasts.
#ifndef THERMOCLINE_TEXT_JINJA_EVALUATOR_GUARDS_H_
#define THERMOCLINE_TEXT_JINJA_EVALUATOR_GUARDS_H_

#include <utility>

#include "base/status.h"
#include "text/jinja/evaluator.h"

namespace thermocline::text::jinja {

// One level deeper.
class Evaluator::Level {
 public:
  explicit Level(Evaluator& evaluator) : evaluator_(evaluator) {
    --evaluator_.levels_left_;
  }
  ~Level() { ++evaluator_.levels_left_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;
  // kResourceExhausted: too deep, or a limit is spent.
  Status Check() const {
    if (evaluator_.levels_left_ >= 0) return evaluator_.Tick();
    return Fail(ErrorCode::kResourceExhausted,
                "statements and expressions of macros that call each other "
                "are nested too deep");
  }

 private:
  Evaluator& evaluator_;
};

// Names are set and looked up from there.
class Evaluator::InScope {
 public:
  InScope(Evaluator& evaluator, Scope* scope)
      : evaluator_(evaluator),
        before_(std::exchange(evaluator.scope_, scope)) {}
  ~InScope() { evaluator_.scope_ = before_; }
  InScope(const InScope&) = delete;
  InScope& operator=(const InScope&) = delete;

 private:
  Evaluator& evaluator_;
  Scope* before_;
};

// What is printed goes there.
class Evaluator::IntoBuilder {
 public:
  IntoBuilder(Evaluator& evaluator, TextBuilder* out)
      : evaluator_(evaluator), before_(std::exchange(evaluator.out_, out)) {}
  ~IntoBuilder() { evaluator_.out_ = before_; }
  IntoBuilder(const IntoBuilder&) = delete;
  IntoBuilder& operator=(const IntoBuilder&) = delete;

 private:
  Evaluator& evaluator_;
  TextBuilder* before_;
};

}  // namespace thermocline::text::jinja

#endif  // THERMOCLINE_TEXT_JINJA_EVALUATOR_GUARDS_H_

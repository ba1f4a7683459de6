// How far a template may go before it is stopped.
//
// A template is not to be trusted: one that loops for ever, calls itself, or
// makes a text of gigabytes ends with an error that names the limit and the
// line. All that it does counts, whatever comes of it, and what would be past a
// limit is not made at all.
#ifndef THERMOCLINE_TEXT_JINJA_LIMITS_H_
#define THERMOCLINE_TEXT_JINJA_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace thermocline::text::jinja {

struct Limits {
  // Statements, parts of expressions, rounds of loops; of what looks at long
  // texts or many items, one for 8 bytes (64 where they are compared or copied
  // at once) or an item. A text that is looked for in another costs as if it
  // were compared everywhere.
  int64_t num_steps = 20'000'000;
  // Of texts, lists, dictionaries and names that are made on the way; variables
  // count but for their texts. At most 2^31.
  int64_t num_bytes = 256'000'000;
  // Macros that call each other. Macros' statements and expressions together
  // may be 16 times as deep, and `nesting`: larger limits need a larger stack.
  int depth = 100;
  // Of statements, expressions and values, each.
  int nesting = 200;
};

// The stack of a thread that parses and renders within the default limits. The
// deepest templates take of it, with clang 19 on x86-64: 2.2 MiB at -O2, 2.5
// MiB under ThreadSanitizer, 4.6 MiB at -O0, 6.0 MiB under AddressSanitizer,
// whose builds here are without NDEBUG.
#ifdef NDEBUG
inline constexpr size_t kStackBytes = size_t{4} << 20;
#else
inline constexpr size_t kStackBytes = size_t{8} << 20;
#endif

}  // namespace thermocline::text::jinja

#endif  // THERMOCLINE_TEXT_JINJA_LIMITS_H_

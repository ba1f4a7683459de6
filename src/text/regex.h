// Compiled Unicode patterns over UTF-8 (PCRE2).
#ifndef THERMOCLINE_TEXT_REGEX_H_
#define THERMOCLINE_TEXT_REGEX_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

#include "base/status.h"

struct pcre2_real_code_8;
struct pcre2_real_match_context_8;
struct pcre2_real_match_data_8;

namespace thermocline::text {

struct RegexMatch {
  size_t begin, end;  // byte offsets into the subject
};

// How much a match may backtrack before it gives up. Our own patterns are fixed
// and linear, and one match of theirs may be a whole long text; those that
// people write get PCRE2's limits.
enum class RegexLimits { kNone, kUsual };

// Memory that matching needs: one per thread, for any number of patterns.
class RegexScratch {
 public:
  RegexScratch();
  ~RegexScratch();
  RegexScratch(const RegexScratch&) = delete;
  RegexScratch& operator=(const RegexScratch&) = delete;

 private:
  friend class Regex;
  pcre2_real_match_data_8* data_;
};

// Immutable, so safe from any number of threads.
class Regex {
 public:
  // kUnsupported: not a pattern that this PCRE2 understands;
  // kResourceExhausted: no memory.
  static Result<Regex> Compile(std::string_view pattern, RegexLimits limits);

  // The first match at or after `start`; `$` is the very end of the subject,
  // and nothing is seen of what surrounds it in memory. Requires valid UTF-8
  // and `start` at a character (not checked: that is the caller's, once per
  // text instead of once per match). kResourceExhausted: the pattern gave up.
  Result<std::optional<RegexMatch>> Find(std::string_view subject, size_t start,
                                         RegexScratch& scratch) const;

 private:
  struct FreeCode {
    void operator()(pcre2_real_code_8* code) const;
  };
  struct FreeContext {
    void operator()(pcre2_real_match_context_8* context) const;
  };

  std::unique_ptr<pcre2_real_code_8, FreeCode> code_;
  std::unique_ptr<pcre2_real_match_context_8, FreeContext> context_;
};

}  // namespace thermocline::text

#endif  // THERMOCLINE_TEXT_REGEX_H_

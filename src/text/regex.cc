#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <limits>

namespace thermocline::text {
namespace {

std::string_view Describe(int pcre2_error, std::array<char, 256>* buffer) {
  const int length = pcre2_get_error_message(
      pcre2_error, reinterpret_cast<PCRE2_UCHAR*>(buffer->data()),
      buffer->size());
  if (length < 0) return "unknown error";
  return {buffer->data(), static_cast<size_t>(length)};
}

}  // namespace

// Without memory this stays null, which matching then reports.
RegexScratch::RegexScratch() : data_(pcre2_match_data_create(1, nullptr)) {}

RegexScratch::~RegexScratch() { pcre2_match_data_free(data_); }

void Regex::FreeCode::operator()(pcre2_real_code_8* code) const {
  pcre2_code_free(code);
}

void Regex::FreeContext::operator()(pcre2_real_match_context_8* context) const {
  pcre2_match_context_free(context);
}

Result<Regex> Regex::Compile(std::string_view pattern, RegexLimits limits) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  Regex regex;
  regex.code_.reset(pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C,
      &error, &offset, nullptr));
  if (regex.code_ == nullptr) {
    std::array<char, 256> buffer;
    return Fail(ErrorCode::kUnsupported,
                "pattern {} does not compile at offset {}: {}", pattern, offset,
                Describe(error, &buffer));
  }
  // Where this fails, for want of executable memory say, matching interprets.
  (void)pcre2_jit_compile(regex.code_.get(), PCRE2_JIT_COMPLETE);

  regex.context_.reset(pcre2_match_context_create(nullptr));
  if (regex.context_ == nullptr) {
    return Fail(ErrorCode::kResourceExhausted, "no memory for a pattern");
  }
  if (limits == RegexLimits::kUsual) return regex;
  constexpr uint32_t kNoLimit = std::numeric_limits<uint32_t>::max();
  pcre2_set_match_limit(regex.context_.get(), kNoLimit);
  pcre2_set_depth_limit(regex.context_.get(), kNoLimit);
  return regex;
}

Result<std::optional<RegexMatch>> Regex::Find(std::string_view subject,
                                              size_t start,
                                              RegexScratch& scratch) const {
  const auto match = [&](uint32_t options) {
    return pcre2_match(code_.get(),
                       reinterpret_cast<PCRE2_SPTR>(subject.data()),
                       subject.size(), start, PCRE2_NO_UTF_CHECK | options,
                       scratch.data_, context_.get());
  };
  int status = match(0);
  // The compiled form has a small fixed stack; the interpreter uses the heap.
  if (status == PCRE2_ERROR_JIT_STACKLIMIT) status = match(PCRE2_NO_JIT);
  if (status == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (status < 0) {
    std::array<char, 256> buffer;
    return Fail(ErrorCode::kResourceExhausted,
                "searching a text of {} bytes failed: {}", subject.size(),
                Describe(status, &buffer));
  }
  const PCRE2_SIZE* span = pcre2_get_ovector_pointer(scratch.data_);
  return RegexMatch{span[0], span[1]};
}

}  // namespace thermocline::text

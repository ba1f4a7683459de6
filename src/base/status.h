// Errors as values: what the outside can cause comes back as a Status or a
// Result; what only a programmer can cause is a TC_CHECK (check.h).
#ifndef THERMOCLINE_BASE_STATUS_H_
#define THERMOCLINE_BASE_STATUS_H_

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace thermocline {

enum class ErrorCode {
  kInvalidArgument,    // the caller's value is out of range
  kNotFound,           // no such file, tensor, key
  kCorrupt,            // the bytes contradict themselves
  kUnsupported,        // well-formed, but not something we can run
  kIo,                 // the operating system refused or failed
  kResourceExhausted,  // memory, context, a stated limit
  kCancelled,          // the user asked to stop
};

// Which setting of the caller would mend an error: base/remedy.h. A program
// words it in what it calls its settings, a flag or a field of a request;
// messages of libraries name the fault alone.
enum class Remedy : uint8_t;

struct Advice {
  Remedy remedy = Remedy{0};  // kNone
  int64_t value = 0;          // of the setting, where the remedy has one
};

// One sentence for a person: the object, what is wrong, the likely cause.
struct Error {
  ErrorCode code;
  std::string message;
  Advice advice = {};
};

// Success, or an Error. Default-constructed: success.
class [[nodiscard]] Status : public tl::expected<void, Error> {
 public:
  using tl::expected<void, Error>::expected;
};

// A T, or an Error.
template <typename T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
};

// Makes an Error that converts to Status and to every Result<T>:
//   return Fail(ErrorCode::kCorrupt, "{}: bad magic", path);
template <typename... Args>
[[nodiscard]] tl::unexpected<Error> Fail(ErrorCode code,
                                         fmt::format_string<Args...> format,
                                         Args&&... args) {
  return tl::unexpected<Error>(
      Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

// The same for a fault that the caller's settings can mend:
//   return Fail(ErrorCode::kIo, Advice{Remedy::kSeed}, "no random seed");
template <typename... Args>
[[nodiscard]] tl::unexpected<Error> Fail(ErrorCode code, Advice advice,
                                         fmt::format_string<Args...> format,
                                         Args&&... args) {
  return tl::unexpected<Error>(
      Error{code, fmt::format(format, std::forward<Args>(args)...), advice});
}

// The same error, its message prefixed with "context: ".
[[nodiscard]] inline tl::unexpected<Error> Annotate(std::string_view context,
                                                    const Error& error) {
  return tl::unexpected<Error>(Error{
      error.code, fmt::format("{}: {}", context, error.message), error.advice});
}

}  // namespace thermocline

#define TC_CONCAT_INNER(a, b) a##b
#define TC_CONCAT(a, b) TC_CONCAT_INNER(a, b)

// Returns the error of `expr` (a Status or Result) from this function, if any.
#define TC_RETURN_IF_ERROR(expr)                           \
  do {                                                     \
    auto&& tc_status = (expr);                             \
    if (!tc_status.has_value())                            \
      return tl::unexpected(std::move(tc_status).error()); \
  } while (false)

// `TC_ASSIGN_OR_RETURN(auto x, F());` binds the value or returns the error.
#define TC_ASSIGN_OR_RETURN(lhs, expr) \
  TC_ASSIGN_OR_RETURN_IMPL(TC_CONCAT(tc_result_, __LINE__), lhs, expr)
#define TC_ASSIGN_OR_RETURN_IMPL(result, lhs, expr)                          \
  auto result = (expr);                                                      \
  if (!result.has_value()) return tl::unexpected(std::move(result).error()); \
  lhs = std::move(result).value()

#endif  // THERMOCLINE_BASE_STATUS_H_

// llama.cpp spells some flags with one dash and several letters (-ctk, -ngl),
// which the parser would read as -c with the value "tk", and takes --ctx_size
// for --ctx-size. They are rewritten before the parser sees them.
#ifndef THERMOCLINE_CLI_ARGS_H_
#define THERMOCLINE_CLI_ARGS_H_

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace thermocline::cli {

// Whether a flag as written ("-p", "--prompt") consumes the next argument.
using TakesValueFn = std::function<bool(std::string_view flag)>;

// Rewrites arguments that begin with one dash and two letters ("-ctk",
// "-ngl=9", "-no-cnv") to two dashes where a flag stands, known or not: an
// unknown one is then refused by its whole name. So a value sticks to a
// one-letter flag only when it begins with no letter ("-n128"). In names of two
// dashes '_' becomes '-'. Values of flags and everything behind "--" stay.
std::vector<std::string> RewriteArgs(std::span<const std::string> args,
                                     const TakesValueFn& takes_value);

// A flag as the parser knows it; other arguments as they are.
std::string AsParsed(const std::string& arg);

// The way back for messages: "--ngl" to "-ngl" if the user typed that, and
// "--ctx-size" to "--ctx_size".
std::string AsTyped(const std::string& arg,
                    std::span<const std::string> typed_args);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_ARGS_H_

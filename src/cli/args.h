// llama.cpp spells some flags with one dash and several letters (-ctk, -ngl),
// which the parser would read as -c with the value "tk". They are rewritten to
// two dashes before it sees them.
#ifndef THERMOCLINE_CLI_ARGS_H_
#define THERMOCLINE_CLI_ARGS_H_

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace thermocline::cli {

// Whether `name` ("ctk") is one of those flags, ours or llama.cpp's: one that
// we lack is then refused by its whole name.
bool IsSingleDashName(std::string_view name);

// Whether a flag as written ("-p", "--prompt") consumes the next argument.
using TakesValueFn = std::function<bool(std::string_view flag)>;

// Rewrites "-ctk" and "-ctk=f16" to two dashes where a flag stands; values of
// flags, negative numbers and everything behind "--" stay.
std::vector<std::string> RewriteArgs(std::span<const std::string> args,
                                     const TakesValueFn& takes_value);

// The way back for messages: "--ctk" to "-ctk".
std::string FlagAsTyped(std::string_view flag);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_ARGS_H_

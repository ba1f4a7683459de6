// Strict reading of values that users type.
#ifndef THERMOCLINE_CLI_PARSE_TEXT_H_
#define THERMOCLINE_CLI_PARSE_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace thermocline::cli {

// A decimal integer in [min, max]; nothing may stand around it.
Result<int64_t> ParseInt(std::string_view text, int64_t min, int64_t max);

// A finite decimal number in [min, max].
Result<double> ParseFloat(std::string_view text, double min, double max);

// Integers in [min, max] separated by commas, spaces, tabs or line ends; at
// least one.
Result<std::vector<int64_t>> ParseIntList(std::string_view text, int64_t min,
                                          int64_t max);

// "'x' is not one of a, b, c", for a value that is none of `names`.
tl::unexpected<Error> NotOneOf(std::string_view text, std::string_view names);

// Replaces \n \r \t \\ \" \' and \xHH by what they mean; any other backslash
// stays as it is, as in llama.cpp.
std::string ProcessEscapes(std::string_view text);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_PARSE_TEXT_H_

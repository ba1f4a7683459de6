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

// A size in bytes: a decimal number and KiB, MiB, GiB, TiB (also K, M, G, T) or
// KB, MB, GB, TB, of 1000s; without a unit bytes. "4GiB", "1.5 GB", "512M".
Result<uint64_t> ParseSize(std::string_view text);
// Several, separated by commas.
Result<std::vector<uint64_t>> ParseSizes(std::string_view text);

// What commas separate, empty texts too; at least one.
std::vector<std::string> SplitAtCommas(std::string_view text);

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

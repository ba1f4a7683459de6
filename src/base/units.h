// Numbers for people.
#ifndef THERMOCLINE_BASE_UNITS_H_
#define THERMOCLINE_BASE_UNITS_H_

#include <fmt/format.h>

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace thermocline {

inline constexpr uint64_t kKiB = uint64_t{1} << 10;
inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr uint64_t kGiB = uint64_t{1} << 30;

// "512 B", "1.50 KiB", "3.56 GiB": binary units, two decimals above bytes.
std::string FormatBytes(uint64_t num_bytes);
// The same of what is needed at least: rounded up, so that it is enough.
std::string FormatLeastBytes(uint64_t num_bytes);

// "512", "8.80 M", "6.74 B": decimal units, two decimals from a thousand on.
std::string FormatCount(uint64_t count);

// "0 tokens", "1 token", "2 tokens": for nouns whose plural ends in "s".
template <std::integral Count>
std::string Plural(Count count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace thermocline

#endif  // THERMOCLINE_BASE_UNITS_H_

// Pieces of HTML pages.
#ifndef THERMOCLINE_INSPECT_HTML_H_
#define THERMOCLINE_INSPECT_HTML_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace thermocline::inspect {

// Any bytes as text that stands between tags or in a quoted attribute: markup
// is escaped, what is not UTF-8 and control characters become U+FFFD.
std::string HtmlText(std::string_view text);

// The same for a name from a file: cut after 80 bytes, with characters that
// turn the writing direction escaped (base/quote.h).
std::string HtmlName(std::string_view name);

// "<data value="1536">1.50 KiB</data>": rounded for people, exact for programs.
std::string HtmlBytes(uint64_t num_bytes);

// "1,234,567".
std::string Grouped(uint64_t number);

// "12.3 %"; "0 %" of nothing.
std::string Percent(uint64_t part, uint64_t whole);

}  // namespace thermocline::inspect

#endif  // THERMOCLINE_INSPECT_HTML_H_

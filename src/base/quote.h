// Text from files, made safe to show.
#ifndef THERMOCLINE_BASE_QUOTE_H_
#define THERMOCLINE_BASE_QUOTE_H_

#include <string>
#include <string_view>

namespace thermocline {

// `text` in double quotes with control characters, those that turn the writing
// direction, quotes and invalid UTF-8 escaped, so that a name from a file can
// neither flood a terminal nor command it. More than 80 bytes are cut, with
// "..." behind the quote.
std::string Quote(std::string_view text);

// The same without the quotes around it, for places where only the name stands.
std::string Escape(std::string_view text);

// A quoted field of CSV, whatever the text is; quotes inside are doubled (RFC
// 4180).
std::string QuoteCsv(std::string_view text);

// Every control character (C0, DEL, C1 as UTF-8) becomes a space: for finished
// lines, whatever their parts went through.
std::string WithoutControls(std::string_view text);

}  // namespace thermocline

#endif  // THERMOCLINE_BASE_QUOTE_H_

// Text from files, made safe to show.
#ifndef THERMOCLINE_GGUF_QUOTE_H_
#define THERMOCLINE_GGUF_QUOTE_H_

#include <string>
#include <string_view>

namespace thermocline::gguf {

// `text` in double quotes with control bytes, quotes and invalid UTF-8 escaped,
// so that a name from a file can neither flood a terminal nor command it. More
// than 80 bytes are cut, with "..." behind the quote.
std::string Quote(std::string_view text);

}  // namespace thermocline::gguf

#endif  // THERMOCLINE_GGUF_QUOTE_H_

// How byte-level BPE writes bytes as text: each byte is one printable
// character (GPT-2's table), so that a vocabulary needs no unprintable string.
#ifndef THERMOCLINE_TEXT_BYTE_TEXT_H_
#define THERMOCLINE_TEXT_BYTE_TEXT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace thermocline::text {

// The character, in UTF-8, that stands for a byte: bytes 33-126, 161-172 and
// 174-255 are the code point of their value, the other 68 are U+0100 onwards.
std::string_view ByteToText(uint8_t byte);

std::string BytesToText(std::string_view bytes);

// The way back; nullopt if some character stands for no byte.
std::optional<std::string> TextToBytes(std::string_view text);

// As TextToBytes, but what stands for no byte is kept as it is.
std::string TextToBytesLenient(std::string_view text);

}  // namespace thermocline::text

#endif  // THERMOCLINE_TEXT_BYTE_TEXT_H_

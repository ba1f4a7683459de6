// For tests: SentencePiece models, written without the reader's code.
#ifndef THERMOCLINE_IMPORT_TEST_SENTENCEPIECE_H_
#define THERMOCLINE_IMPORT_TEST_SENTENCEPIECE_H_

#include <cstdint>
#include <cstring>
#include <string>

namespace thermocline::importer {

inline std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) {
    bytes += static_cast<char>(value | 0x80);
  }
  return bytes + static_cast<char>(value);
}

inline std::string NumberField(uint64_t number, uint64_t value) {
  return Varint(number << 3) + Varint(value);
}

inline std::string BytesField(uint64_t number, const std::string& bytes) {
  return Varint(number << 3 | 2) + Varint(bytes.size()) + bytes;
}

inline std::string FloatField(uint64_t number, float value) {
  std::string bytes(sizeof(value), '\0');
  std::memcpy(bytes.data(), &value, sizeof(value));
  return Varint(number << 3 | 5) + bytes;
}

inline std::string Piece(const std::string& text, float score, uint64_t type) {
  return BytesField(
      1, BytesField(1, text) + FloatField(2, score) + NumberField(3, type));
}

inline constexpr uint64_t kTestBpe = 2;

// <unk> <s> </s> <0x00> U+2581 a b "U+2581 a" ab: nine pieces.
inline std::string TestSentencePiece(uint64_t model_type = kTestBpe) {
  return Piece("<unk>", 0, 2) + Piece("<s>", 0, 3) + Piece("</s>", 0, 3) +
         Piece("<0x00>", 0, 6) + Piece("\u2581", -3, 1) + Piece("a", -4, 1) +
         Piece("b", -5, 1) + Piece("\u2581a", -1, 1) + Piece("ab", -2, 1) +
         BytesField(2, NumberField(3, model_type) + NumberField(40, 0) +
                           NumberField(43, ~uint64_t{0})) +
         BytesField(3, BytesField(1, "identity") + BytesField(2, "") +
                           NumberField(3, 1) + NumberField(4, 0));
}

}  // namespace thermocline::importer

#endif  // THERMOCLINE_IMPORT_TEST_SENTENCEPIECE_H_

// Writes JSON text as it is told, in order, indented by two spaces.
#ifndef THERMOCLINE_CLI_JSON_WRITER_H_
#define THERMOCLINE_CLI_JSON_WRITER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace thermocline::cli {

// Usage: BeginObject(); Key("a"); Int(1); EndObject(); text(). The caller pairs
// begin with end and gives one value per key. (CHECKed)
class JsonWriter {
 public:
  void BeginObject() { Begin('{'); }
  void EndObject() { End('}'); }
  void BeginArray() { Begin('['); }
  void EndArray() { End(']'); }

  void Key(std::string_view key);

  // Any bytes; what is not UTF-8 becomes U+FFFD.
  void String(std::string_view text);
  void Int(int64_t value);
  void Uint(uint64_t value);
  void Bool(bool value);
  void Null();
  // Shortest text that reads back as the same number; null if not finite.
  void Float(float value);

  // null for nullopt.
  void OptionalInt(std::optional<int64_t> value);
  void OptionalString(const std::optional<std::string>& text);

  // The whole text, line end included. Requires all begun to be ended.
  std::string text() const;

 private:
  void Begin(char bracket);
  void End(char bracket);
  void BeforeValue();
  void Raw(std::string_view token);
  void NewLine();

  std::string out_;
  std::vector<bool> has_items_;  // per open object or array
  bool after_key_ = false;
};

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_JSON_WRITER_H_

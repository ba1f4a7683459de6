// XML as far as IR needs it: elements with attributes, digits between tags.
#ifndef THERMOCLINE_NPU_IR_XML_H_
#define THERMOCLINE_NPU_IR_XML_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "npu/graph.h"

namespace thermocline::npu {

// A name as one of a list: a comma that belongs to it has a backslash before
// it.
std::string NameInList(std::string_view name);

// With &, <, >, quotes and control characters as references.
std::string EscapeXml(std::string_view text);

struct XmlAttribute {
  std::string_view name;
  std::string value;
};

// <name attribute="value">, <name/> or </name>.
struct XmlTag {
  std::string_view name;
  std::vector<XmlAttribute> attributes;
  bool is_closing = false;
  bool is_whole = false;  // <name/>
  size_t line = 0;        // counted from 1
};

// Goes through a text, which it does not own. What XML has besides (comments,
// declarations but the first, references but those of EscapeXml) is refused.
// Errors are kCorrupt, the line named.
class XmlScanner {
 public:
  static constexpr size_t kMostAttributes = 16;

  explicit XmlScanner(std::string_view text) : text_(text) {}

  // The declaration, if there is one.
  Status SkipDeclaration();
  // The next tag, between which only spaces are.
  Result<XmlTag> Next();
  // What is up to the next tag: a whole number, not negative.
  Result<int64_t> NextNumber();
  // Nothing but spaces is left.
  Status ExpectEnd();

  // Of what comes next.
  size_t line() const { return line_; }

 private:
  bool Takes(std::string_view expected);
  void SkipSpaces();
  std::string_view TakeName();
  Result<XmlAttribute> TakeAttribute();
  Result<std::string> Unescape(std::string_view raw) const;

  std::string_view text_;
  size_t at_ = 0;
  size_t line_ = 1;
};

// The attributes of a tag, which has to outlive this. Errors name its line:
// kCorrupt, an attribute that is missing or no such value; kUnsupported, a
// value that is not known.
class XmlAttributes {
 public:
  explicit XmlAttributes(const XmlTag& tag)
      : tag_(tag), is_taken_(tag.attributes.size(), false) {}

  Result<std::string> Text(std::string_view name);
  Result<int64_t> Number(std::string_view name);
  // From 0 to `most`.
  Result<size_t> Number(std::string_view name, size_t most);
  Result<bool> Bool(std::string_view name);
  Result<Dims> Shape(std::string_view name);  // "1,4,64"
  Result<Element> ElementOf(std::string_view name);
  // Names one value, and no other is known.
  Status Expect(std::string_view name, std::string_view value);
  bool Has(std::string_view name) const;
  // Nothing has been left that was not asked for.
  Status ExpectAllTaken() const;

 private:
  const XmlTag& tag_;
  std::vector<bool> is_taken_;
};

// All of `text`; nullopt: it is no number, or not one of an int64_t.
std::optional<int64_t> ParseWhole(std::string_view text);

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_IR_XML_H_

// Chat templates: programs in a part of Jinja2 that model files carry.
//
// What runs here is what the templates of real models use, in the set-up of
// Hugging Face transformers (trim_blocks, lstrip_blocks, loop controls, the tag
// `generation`; tojson, raise_exception, strftime_now), so that a rendering has
// the same bytes. A template is not to be trusted: it sees its variables and a
// clock, no file and no process, and limits end one that does not end itself.
#ifndef THERMOCLINE_TEXT_JINJA_TEMPLATE_H_
#define THERMOCLINE_TEXT_JINJA_TEMPLATE_H_

#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/jinja/limits.h"
#include "text/tokenizer.h"

namespace thermocline::text::jinja {

// Objects keep the order of their keys: templates print them.
using Json = nlohmann::ordered_json;

// Two objects, whose members are the template's variables. What stands in
// neither is undefined.
struct Variables {
  // What people wrote: messages, tools, documents, arguments. Nothing of it
  // ever becomes markup, whatever the template does with it.
  Json content = Json::object();
  // What the program writes: texts of special tokens, flags. Wins over content.
  Json markup = Json::object();
};

struct RenderOptions {
  Limits limits;
  std::tm now = {};  // what strftime_now tells, local time
};

// Immutable after Parse, so safe from any number of threads. Parse and Render
// need a stack of kStackBytes; a thread with less sets smaller Limits. (glibc's
// threads have 8 MiB unless told otherwise, other libraries' less.)
class Template {
 public:
  // kCorrupt: a syntax error. kUnsupported: a statement, filter, test, ... of
  // Jinja2 that this subset lacks, by its name. kResourceExhausted: nested too
  // deep. All with the line. Filters, tests and functions that do not exist are
  // errors when they are reached, as attributes are, not here. Linear time.
  static Result<Template> Parse(std::string_view source,
                                const Limits& limits = {});

  // The rendering, cut where what the template itself writes (is_markup) and
  // what comes from content meet; neighbours differ. A text that is made of
  // both (join, replace, upper, ...) keeps the two apart; where that cannot be
  // told (tojson of a mixture) it is content. Numbers that the template counts
  // (length, loop.index) are its own.
  // kInvalidArgument: raise_exception, the template's own message.
  // kUnsupported: what the subset lacks. kCorrupt: what Python refuses, as an
  // undefined value's attribute. kResourceExhausted: a limit. All but the first
  // with the line, or with the variable that is nested too deep.
  // Cost: that of the template's steps, and of the bytes that it makes, which
  // stay until the end. Variables' texts are not copied, and a text that a
  // template appends to is not copied by that.
  Result<std::vector<TextPart>> Render(const Variables& variables,
                                       const RenderOptions& options = {}) const;

  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;
  ~Template();

 private:
  struct Program;
  explicit Template(std::unique_ptr<const Program> program);
  std::unique_ptr<const Program> program_;
};

}  // namespace thermocline::text::jinja

#endif  // THERMOCLINE_TEXT_JINJA_TEMPLATE_H_

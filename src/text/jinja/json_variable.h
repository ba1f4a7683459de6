// JSON that a caller holds, as values of one rendering.
//
// Apart from printing.h, which has JSON that a template's texts hold and are
// made of: nlohmann's header takes seconds to compile, and what computes with
// values has no need of it. json_text.cc has both.
#ifndef THERMOCLINE_TEXT_JINJA_JSON_VARIABLE_H_
#define THERMOCLINE_TEXT_JINJA_JSON_VARIABLE_H_

#include "base/status.h"
#include "text/jinja/runtime.h"
#include "text/jinja/template.h"
#include "text/jinja/value.h"

namespace thermocline::text::jinja {

// Lists and objects are made anew, so that the template may change them; texts
// stay in `json`, which outlives the rendering. Objects keep the order of their
// keys, and the last of two equal keys counts. Integers past int64_t, up to
// uint64_t, can be printed and compared, not computed with. All of it is
// content, or nothing.
// kResourceExhausted: nested deeper than Limits.nesting, or more than the
// runtime may make, in one piece of 2 GiB or in all.
// Recursion: as deep as that, a frame a level.
//
// Cost: linear, up to a logarithm for objects of many keys; no text is copied.
Result<Value> FromJson(Runtime& runtime, const Json& json, bool is_content);

}  // namespace thermocline::text::jinja

#endif  // THERMOCLINE_TEXT_JINJA_JSON_VARIABLE_H_

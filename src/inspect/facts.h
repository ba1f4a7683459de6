// What inspect's page says of a model in words.
#ifndef THERMOCLINE_INSPECT_FACTS_H_
#define THERMOCLINE_INSPECT_FACTS_H_

#include <string>
#include <string_view>

#include "inspect/report.h"

namespace thermocline::inspect {

// The path without its folders: a page says nothing of the machine.
std::string FileName(const InspectReport& report);

// A message about the file as HTML, without the path that it starts with.
std::string HtmlMessage(const InspectReport& report, std::string_view message);

// A list of terms as HTML: shape, kinds, vocabulary, what it brings for sparse
// execution. What the file does not say is left out.
std::string ListFacts(const InspectReport& report);

}  // namespace thermocline::inspect

#endif  // THERMOCLINE_INSPECT_FACTS_H_

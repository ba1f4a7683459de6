// What `thermocline profile` shows.
#ifndef THERMOCLINE_CLI_PROFILE_REPORT_H_
#define THERMOCLINE_CLI_PROFILE_REPORT_H_

#include <string>

#include "model/profile_file.h"
#include "neuron/profile.h"

namespace thermocline::cli {

// Whose profile of what: "a name (llama, 6 layers of 1536 neurons): 512 tokens
// of text.txt, 256 at a time".
std::string DescribeProfile(const model::ProfileFile& file);

// A row per layer and their means, in percent; "-" for what there is none of.
// Ends in a line end.
std::string FormatLayerTable(const neuron::Profile& profile);

// Both of it.
std::string FormatProfile(const model::ProfileFile& file);

// One JSON object, described in docs/cli.md. Ends in a line end.
std::string FormatProfileJson(const model::ProfileFile& file);

// A page for browsers that needs nothing else: bars, curves, a heat map. The
// same profile gives the same bytes.
std::string FormatProfileHtml(const model::ProfileFile& file);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_PROFILE_REPORT_H_

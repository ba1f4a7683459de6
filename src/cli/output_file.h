// Output files: that they are neither an input nor each other, that they can be
// written, and that nothing else gets into them.
#ifndef THERMOCLINE_CLI_OUTPUT_FILE_H_
#define THERMOCLINE_CLI_OUTPUT_FILE_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace thermocline::cli {

// kInvalidArgument if `output` is one of `inputs` by whatever name, also where
// "-" is one and standard input comes from that file: writing it would replace
// what is read; or if it is "-", which people do not mean as a
// file's name. Devices and pipes replace nothing; paths where nothing is count
// as different.
Status RefuseToReplaceInput(const std::string& output,
                            std::span<const std::string> inputs);

// RefuseToReplaceInput's error, and that which writing `output` would end with:
// a folder, a place where no file can be made. For commands that work for long
// before they write. Leaves nothing; devices and pipes are not opened.
Status CheckOutput(const std::string& output,
                   std::span<const std::string> inputs);

// The same for each of a command's outputs, and kInvalidArgument if two of them
// are one file, whether or not it is there yet: one would replace the other.
Status CheckOutputs(std::span<const std::string> outputs,
                    std::span<const std::string> inputs);

// "wrote FILE", on one line and harmless to a terminal, whatever the name.
std::string Wrote(const std::string& output);

// Writes what a command tells of its work to standard output; but where that is
// itself one of the `outputs` (-o /dev/stdout), to standard error, so that the
// file holds nothing else. WriteStdout's errors.
Status WriteReport(std::string_view report,
                   const std::vector<std::string>& outputs);

// The paths of what is in a folder; empty if it cannot be read.
std::vector<std::string> FilesIn(const std::string& folder);

// The paths of a model's files: `path` and the shards that its name tells of.
std::vector<std::string> ModelFiles(const std::string& path);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_OUTPUT_FILE_H_

// Graphs as files: OpenVINO's IR, version 11, an XML text and one file of
// bytes.
#ifndef THERMOCLINE_NPU_IR_H_
#define THERMOCLINE_NPU_IR_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "npu/graph.h"

namespace thermocline::npu {

// The text; the bytes are graph.data(), as they are. The same graph gives the
// same text.
std::string WriteIr(const Graph& graph);

// What WriteIr writes, and no more of IR than that. Untrusted: every count, id,
// edge, shape, name and offset is checked before it is used, and so is each
// node's shape against what its operation gives (Graph::Add). kCorrupt, with
// the line; kUnsupported: another version, or an operation or attribute that is
// not known.
Result<Graph> ReadIr(std::string_view xml, std::vector<std::byte> data);

// PATH.xml and PATH.bin, each whole or not at all. kIo.
Status WriteIrFiles(const Graph& graph, const std::string& path);
// Of PATH.xml and the .bin beside it. Besides ReadIr's errors: kIo, kNotFound;
// kInvalidArgument: a name that does not end in .xml; kCorrupt: the .bin is
// shorter than the text says.
Result<Graph> ReadIrFiles(const std::string& xml_path);

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_IR_H_

#include <utility>

#include "npu/ir.h"
#include "os/file.h"

namespace thermocline::npu {
namespace {

constexpr std::string_view kXmlEnding = ".xml";
constexpr uint64_t kMostXmlBytes = uint64_t{256} << 20;

Result<std::vector<std::byte>> ReadBytes(const std::string& path) {
  TC_ASSIGN_OR_RETURN(const os::MappedFile file, os::MappedFile::Open(path));
  std::vector<std::byte> bytes(file.bytes().size());
  TC_RETURN_IF_ERROR(file.ReadInto(bytes));
  return bytes;
}

}  // namespace

Status WriteIrFiles(const Graph& graph, const std::string& path) {
  // The text comes last: who finds it finds its bytes.
  TC_ASSIGN_OR_RETURN(const auto bin, os::AtomicFile::Create(path + ".bin"));
  TC_ASSIGN_OR_RETURN(const auto xml,
                      os::AtomicFile::Create(path + std::string(kXmlEnding)));
  TC_RETURN_IF_ERROR(bin->Write(graph.data()));
  TC_RETURN_IF_ERROR(xml->Write(WriteIr(graph)));
  TC_RETURN_IF_ERROR(bin->Commit());
  return xml->Commit();
}

Result<Graph> ReadIrFiles(const std::string& xml_path) {
  if (!xml_path.ends_with(kXmlEnding)) {
    return Fail(ErrorCode::kInvalidArgument, "{}: its name does not end in {}",
                xml_path, kXmlEnding);
  }
  const std::string stem =
      xml_path.substr(0, xml_path.size() - kXmlEnding.size());
  TC_ASSIGN_OR_RETURN(const std::string xml,
                      os::ReadFile(xml_path, kMostXmlBytes));
  TC_ASSIGN_OR_RETURN(std::vector<std::byte> bytes, ReadBytes(stem + ".bin"));
  auto graph = ReadIr(xml, std::move(bytes));
  if (!graph.has_value()) return Annotate(xml_path, graph.error());
  return graph;
}

}  // namespace thermocline::npu

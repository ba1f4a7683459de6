// A compile in a process of its own, seen from both sides.
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <span>
#include <string_view>
#include <utility>

#include "base/quote.h"
#include "npu/child_process.h"
#include "npu/openvino.h"
#include "npu/ov_compile.h"
#include "npu/ov_errors.h"
#include "os/file.h"

namespace thermocline::npu {
namespace {

constexpr std::string_view kChildTask =
    "compiling a graph in a process of its own";

// The files of the folder. The job: strings, each with a zero byte behind it;
// the library, the device, the number of the process that waits, keys and
// values in turn.
constexpr const char* kJob = "job";
constexpr const char* kXml = "graph.xml";
constexpr const char* kBytes = "graph.bin";
constexpr const char* kBlob = "blob";
constexpr const char* kError = "error";  // a code, a space, a message
constexpr const char* kLog = "log";      // what the child wrote

// Not as safe from crashes as what is kept: the folder goes with this process.
Status WriteFile(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (file) return {};
  return Fail(ErrorCode::kIo,
              "{}: cannot be written; is its disk full? $TMPDIR can name a "
              "folder on another",
              path);
}

Status WriteFile(const std::string& path, std::string_view text) {
  return WriteFile(path, std::as_bytes(std::span(text)));
}

std::string JobText(const OvJob& job) {
  std::string text = job.runtime->library + '\0' + job.device.given + '\0' +
                     std::to_string(getpid()) + '\0';
  for (const auto& [key, value] : job.properties) {
    text += key + '\0' + value + '\0';
  }
  return text;
}

Result<std::span<const std::byte>> WeightBytes(const OvApi& api,
                                               const OvTensor* tensor) {
  void* data = nullptr;
  size_t num_bytes = 0;
  int status = api.tensor_data(tensor, &data);
  if (status == 0) status = api.tensor_bytes(tensor, &num_bytes);
  if (status != 0) {
    return Fail(ErrorCode::kIo, "{}", FirstLine(LastWords(api, status)));
  }
  return std::span(static_cast<const std::byte*>(data), num_bytes);
}

Status WriteJob(const OvJob& job, const PrivateFolder& folder) {
  TC_ASSIGN_OR_RETURN(const std::span<const std::byte> weights,
                      WeightBytes(*job.runtime->api, job.weights.get()));
  TC_RETURN_IF_ERROR(folder.CheckRoom(weights.size() + job.xml.size()));
  TC_RETURN_IF_ERROR(WriteFile(folder / kJob, JobText(job)));
  TC_RETURN_IF_ERROR(WriteFile(folder / kXml, job.xml));
  return WriteFile(folder / kBytes, weights);
}

// What the child's error file says; kIo, with the end of what it wrote, where
// it left none.
Error ErrorOf(const OvJob& job, const PrivateFolder& folder,
              const ChildEnd& end) {
  const auto told = os::ReadFile(folder / kError);
  int code = 0;
  if (told.has_value()) {
    const char* last = told->data() + told->size();
    const auto [at, error] = std::from_chars(told->data(), last, code);
    const bool is_code =
        code >= 0 && code <= static_cast<int>(ErrorCode::kCancelled);
    if (error == std::errc() && is_code && at != last) {
      return {static_cast<ErrorCode>(code), std::string(at + 1, last)};
    }
  }
  const std::string how =
      end.signal != 0
          ? fmt::format("died of signal {} ({})", end.signal,
                        strsignal(end.signal))
          : fmt::format("ended with exit code {} and no result", end.exit_code);
  const auto log = os::ReadFile(folder / kLog);
  const std::string line = log.has_value() ? FirstLine(*log) : "";
  return {ErrorCode::kIo,
          fmt::format("{}: {}: it {}{}", job.device.given, kChildTask, how,
                      line.empty() ? "" : fmt::format(" ({})", line))};
}

Result<OvOwned<OvCompiled>> Import(const OvJob& job, const std::string& blob) {
  const OvRuntime& runtime = *job.runtime;
  OvCompiled* compiled = nullptr;
  const int status =
      runtime.api->core_import(runtime.core.get(), blob.data(), blob.size(),
                               job.device.plugin.c_str(), &compiled);
  if (status != 0) {
    return tl::unexpected(OvError(job.device.given, "importing a graph",
                                  LastWords(*runtime.api, status)));
  }
  return OvOwned<OvCompiled>(compiled, {runtime.api});
}

tl::unexpected<Error> NoJob() {
  return Fail(ErrorCode::kCorrupt, "a job for a compile that is none");
}

// The strings of a job's text. kCorrupt.
Result<std::vector<std::string>> StringsOfJob(std::string_view text) {
  std::vector<std::string> strings;
  while (!text.empty()) {
    const size_t end = text.find('\0');
    if (end == std::string_view::npos) break;
    strings.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  if (!text.empty() || strings.size() < 3 || strings.size() % 2 == 0) {
    return NoJob();
  }
  return strings;
}

// kCorrupt.
Result<pid_t> ProcessOfJob(const std::string& text) {
  pid_t process = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, process);
  if (error != std::errc() || end != last || process < 1) return NoJob();
  return process;
}

Result<OvJob> ReadJob(const std::string& folder) {
  TC_ASSIGN_OR_RETURN(const std::string text,
                      os::ReadFile(folder + "/" + kJob));
  TC_ASSIGN_OR_RETURN(const std::vector<std::string> strings,
                      StringsOfJob(text));
  TC_ASSIGN_OR_RETURN(const pid_t parent, ProcessOfJob(strings[2]));
  DieWithParent(parent);
  OvJob job;
  TC_ASSIGN_OR_RETURN(job.runtime, StartOv(strings[0]));
  job.device = ParseOvDevice(strings[1]);
  for (size_t i = 3; i < strings.size(); i += 2) {
    job.properties.emplace_back(strings[i], strings[i + 1]);
  }
  TC_ASSIGN_OR_RETURN(job.xml, os::ReadFile(folder + "/" + kXml));
  {
    TC_ASSIGN_OR_RETURN(const os::MappedFile bytes,
                        os::MappedFile::Open(folder + "/" + kBytes));
    TC_ASSIGN_OR_RETURN(job.weights, CopyWeights(*job.runtime, bytes.bytes()));
  }
  // Who made them may be killed before it can take them away.
  for (const char* read : {kXml, kBytes}) {
    (void)std::remove((folder + "/" + read).c_str());
  }
  return job;
}

Status CompileAndExport(const std::string& folder) {
  TC_ASSIGN_OR_RETURN(const OvJob job, ReadJob(folder));
  TC_ASSIGN_OR_RETURN(const OvOwned<OvCompiled> compiled, CompileHere(job));
  const OvApi& api = *job.runtime->api;
  const int status =
      api.compiled_export(compiled.get(), (folder + "/" + kBlob).c_str());
  if (status == 0) return {};
  return tl::unexpected(OvError(job.device.given,
                                "exporting a graph to a temporary file",
                                LastWords(api, status)));
}

}  // namespace

Result<OvOwned<OvCompiled>> CompileInChild(
    const OvJob& job, const std::vector<std::string>& command,
    const CompileOptions& options) {
  TC_ASSIGN_OR_RETURN(const PrivateFolder folder, PrivateFolder::Create());
  TC_RETURN_IF_ERROR(WriteJob(job, folder));
  std::vector<std::string> argv = command;
  argv.push_back(folder.path());
  TC_ASSIGN_OR_RETURN(
      const ChildEnd end,
      RunChild(argv, folder / kLog, options.most_seconds, options.cancel));
  if (end.is_cancelled) return Fail(ErrorCode::kCancelled, "cancelled");
  if (end.is_timed_out) {
    return tl::unexpected(
        CompileTookTooLong(job.device.given, options.most_seconds));
  }
  if (end.signal != 0 || end.exit_code != 0 || !os::HasEntry(folder / kBlob)) {
    return tl::unexpected(ErrorOf(job, folder, end));
  }
  TC_ASSIGN_OR_RETURN(const std::string blob,
                      os::ReadFile(folder / kBlob, uint64_t{1} << 40));
  return Import(job, blob);
}

Status RunCompileChild(const std::string& folder) {
  Status status = CompileAndExport(folder);
  if (!status.has_value()) {
    const Error& error = status.error();
    // Who reads it tells the error; who called by hand sees the status.
    (void)WriteFile(
        folder + "/" + kError,
        fmt::format("{} {}", static_cast<int>(error.code), error.message));
  }
  return status;
}

}  // namespace thermocline::npu

#include "npu/ov_errors.h"

#include <algorithm>
#include <array>

#include "base/quote.h"

namespace thermocline::npu {
namespace {

constexpr size_t kMostChars = 400;

struct KnownWords {
  std::string_view part;
  ErrorCode code;
  std::string_view sentence;
};

constexpr std::string_view kNotRegistered = "is not registered in the OpenVINO";

// The first that is found in the words counts.
constexpr std::array<KnownWords, 23> kKnownWords = {{
    {kNotRegistered, ErrorCode::kNotFound, "OpenVINO has no plugin for it"},
    {"openvino_intel_npu_compiler", ErrorCode::kUnsupported,
     "the NPU's compiler is not there; it comes with the NPU's driver"},
    {"VCL compiler loading failed", ErrorCode::kUnsupported,
     "the NPU's compiler is not there; it comes with the NPU's driver"},
    {"Cannot load library", ErrorCode::kUnsupported,
     "a library that its plugin or driver needs is not there"},
    {"AUTO_DETECT", ErrorCode::kUnsupported,
     "there is no NPU, or its driver is not loaded"},
    {"Device not found", ErrorCode::kUnsupported,
     "there is no such device, or its driver is not loaded"},
    {"no supported devices found", ErrorCode::kUnsupported,
     "there is no such device, or its driver is not loaded"},
    {"configuration key: FULL_DEVICE_NAME", ErrorCode::kUnsupported,
     "there is no such device, or its driver is not loaded"},
    {"to_shape was called on a dynamic shape", ErrorCode::kUnsupported,
     "a shape became dynamic there, and the device takes static ones"},
    {"9223372036854775807", ErrorCode::kUnsupported,
     "a shape became dynamic there, and the device takes static ones"},
    {"OUT_OF_HOST_MEMORY", ErrorCode::kResourceExhausted,
     "the driver has no more memory; smaller programs need less"},
    {"OUT_OF_DEVICE_MEMORY", ErrorCode::kResourceExhausted,
     "the device has no more memory; smaller programs need less"},
    {"CL_OUT_OF", ErrorCode::kResourceExhausted,
     "the device has no more memory; smaller programs need less"},
    {"bad_alloc", ErrorCode::kResourceExhausted,
     "there is no more memory; smaller programs need less"},
    {"annot allocate memory", ErrorCode::kResourceExhausted,
     "there is no more memory; smaller programs need less"},
    {"DEVICE_LOST", ErrorCode::kIo, "the device stopped, or was reset"},
    {"ZE_RESULT_ERROR", ErrorCode::kIo, "its driver failed"},
    {"vpux", ErrorCode::kUnsupported,
     "the NPU's compiler does not take the graph"},
    {"nsupported property", ErrorCode::kUnsupported,
     "this version of OpenVINO does not know a setting that it was given"},
    {"nsupported configuration key", ErrorCode::kUnsupported,
     "this version of OpenVINO does not know a setting that it was given"},
    {"nsupported operation", ErrorCode::kUnsupported,
     "the device does not know an operation of the graph"},
    {"not supported", ErrorCode::kUnsupported,
     "the device does not take the graph"},
    {"ailed to compile", ErrorCode::kUnsupported,
     "the device does not take the graph"},
}};

constexpr std::string_view kPlace = "Exception from ";

// Whether it only says where an exception came from.
bool IsPlace(std::string_view line) {
  return line.starts_with(kPlace) ||
         (line.starts_with("Check '") &&
          line.find("' failed at ") != std::string_view::npos);
}

std::string_view Trimmed(std::string_view line) {
  constexpr std::string_view kBlank = " \t\r";
  const size_t begin = line.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return line.substr(begin, line.find_last_not_of(kBlank) - begin + 1);
}

std::string Shown(std::string_view line) {
  std::string shown(line.substr(0, kMostChars));
  if (line.size() > kMostChars) shown += "...";
  return WithoutControls(shown);
}

// OpenVINO's statuses, for versions and failures that leave no words.
std::string NameOfStatus(int status) {
  constexpr std::array<std::string_view, 17> kNames = {
      "general error",      "not implemented",   "network not loaded",
      "parameter mismatch", "not found",         "out of bounds",
      "unexpected",         "request busy",      "result not ready",
      "not allocated",      "infer not started", "network not read",
      "infer cancelled",    "invalid parameter", "unknown error",
      "no such method",     "unknown exception"};
  if (status >= 0 || -status > static_cast<int>(kNames.size())) {
    return fmt::format("status {}", status);
  }
  return fmt::format("status {}, {}", status,
                     kNames[static_cast<size_t>(-status - 1)]);
}

}  // namespace

std::string FirstLine(std::string_view words) {
  std::string_view place;
  while (!words.empty()) {
    const size_t end = std::min(words.find('\n'), words.size());
    const std::string_view line = Trimmed(words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
    if (line.empty()) continue;
    const size_t inner = line.find(kPlace);
    if (inner != std::string_view::npos && inner > 0) {
      // What went wrong within comes behind its own place.
      const std::string within = FirstLine(words);
      return Shown(fmt::format("{}{}", line.substr(0, inner), within));
    }
    if (!IsPlace(line)) return Shown(line);
    if (place.empty()) place = line;
  }
  return Shown(place);
}

std::string LastWords(const OvApi& api, int status) {
  const char* words = api.last_words == nullptr ? nullptr : api.last_words();
  if (words == nullptr) return NameOfStatus(status);
  std::string copy = words;
  api.free_text(words);
  return copy.empty() ? NameOfStatus(status) : copy;
}

Error OvError(std::string_view device, std::string_view task,
              std::string_view words) {
  const std::string line = FirstLine(words);
  for (const KnownWords& known : kKnownWords) {
    if (words.find(known.part) == std::string_view::npos) continue;
    return {known.code,
            fmt::format("{}: {}: {} ({})", device, task, known.sentence, line)};
  }
  return {ErrorCode::kIo, fmt::format("{}: {}: {}", device, task, line)};
}

bool SaysNotRegistered(std::string_view words) {
  return words.find(kNotRegistered) != std::string_view::npos;
}

}  // namespace thermocline::npu

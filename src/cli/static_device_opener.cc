#include "cli/static_device_opener.h"

#include <utility>

#include "base/quote.h"
#include "cli/commands.h"
#include "cli/parse_text.h"

namespace thermocline::cli {
namespace {

// What follows a colon is ours.
std::string InCapitals(std::string name) {
  if (name == kHostName || name == kReferenceName) return name;
  for (char& c : name) {
    if (c == ':') break;
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return name;
}

}  // namespace

Status StoreStaticDevices(const std::string& text, bool takes_host,
                          std::vector<std::string>& names) {
  names.clear();
  for (const std::string& part : SplitAtCommas(text)) {
    const std::string name = InCapitals(part);
    if (name.empty() || (name == kHostName && !takes_host)) {
      return Fail(ErrorCode::kInvalidArgument,
                  "'{}' has {}; devices are named as in NPU,GPU,CPU{}",
                  Escape(text), name.empty() ? "an empty name" : "the host",
                  takes_host ? ",host" : "");
    }
    if (!names.empty() && names.back() == kHostName) {
      return Fail(ErrorCode::kInvalidArgument,
                  "'{}': the host can always compute: nothing behind it would "
                  "be tried",
                  Escape(text));
    }
    names.push_back(name);
  }
  return {};
}

Result<std::shared_ptr<npu::StaticDevice>> StaticDeviceOpener::Open(
    const std::string& name) {
  if (name == kReferenceName) {
    return std::shared_ptr<npu::StaticDevice>(npu::MakeReferenceDevice());
  }
  if (!openvino_) {
    openvino_ = npu::OpenVino::Load({.library = library_.value_or(""),
                                     .child_command = NpuCompileCommand()});
  }
  // Kept for the next name, so not moved from.
  if (!openvino_->has_value()) return tl::unexpected(openvino_->error());
  return (**openvino_)->Open(name);
}

}  // namespace thermocline::cli

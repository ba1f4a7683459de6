// Devices for static graphs by the names that users give them.
#ifndef THERMOCLINE_CLI_STATIC_DEVICE_OPENER_H_
#define THERMOCLINE_CLI_STATIC_DEVICE_OPENER_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "npu/openvino.h"
#include "npu/static_device.h"

namespace thermocline::cli {

inline constexpr std::string_view kHostName = "host";
inline constexpr std::string_view kReferenceName = "reference";

// "npu,CPU": names separated by commas, OpenVINO's in capitals, as it has them.
// takes_host: the last may be "host". kInvalidArgument.
Status StoreStaticDevices(const std::string& text, bool takes_host,
                          std::vector<std::string>& names);

// Loads OpenVINO when it is first asked for, once.
class StaticDeviceOpener {
 public:
  // Of OpenVinoOptions.
  explicit StaticDeviceOpener(std::optional<std::string> library)
      : library_(std::move(library)) {}

  // Errors of OpenVino::Load and Open.
  Result<std::shared_ptr<npu::StaticDevice>> Open(const std::string& name);

 private:
  std::optional<std::string> library_;
  std::optional<Result<std::shared_ptr<npu::OpenVino>>> openvino_;
};

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_STATIC_DEVICE_OPENER_H_

// Which device of OpenVINO's a name means, and what it is told to do.
#ifndef THERMOCLINE_NPU_OV_PROPERTIES_H_
#define THERMOCLINE_NPU_OV_PROPERTIES_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "npu/static_device.h"

namespace thermocline::npu {

// Behind a name that OpenVino::Open takes.
struct OvDeviceName {
  std::string given;   // "NPU:npuw-cpu"
  std::string plugin;  // "NPU", "GPU.1": what OpenVINO calls it
  // Compiled by the NPU's plugin, computed by the CPU's.
  bool is_npuw = false;

  // An NPU itself, whose compiles may hang or crash.
  bool is_npu() const { return !is_npuw && KindOf() == "NPU"; }
  // "GPU" of "GPU.1".
  std::string_view KindOf() const {
    return std::string_view(plugin).substr(0, plugin.find('.'));
  }
};
OvDeviceName ParseOvDevice(const std::string& given);

using OvProperties = std::vector<std::pair<std::string, std::string>>;

// What a compile for the device is told. supported: the device's own
// SUPPORTED_PROPERTIES, words with spaces between; hints that are not among
// them are left out, since a device refuses all of a compile for one key. What
// a compile cannot do without stays, so that the device can refuse it.
OvProperties PropertiesOf(const OvDeviceName& device,
                          const CompileOptions& options,
                          std::string_view supported);

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_OV_PROPERTIES_H_

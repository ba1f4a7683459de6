// OpenVINO's devices, through its C API, which is looked for when a program
// runs: nothing of it is needed to build.
#ifndef THERMOCLINE_NPU_OPENVINO_H_
#define THERMOCLINE_NPU_OPENVINO_H_

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "npu/static_device.h"

namespace thermocline::npu {

struct OpenVinoOptions {
  // The library, or a folder that has it; empty: $THERMOCLINE_OPENVINO, then
  // where the system looks for libopenvino_c.so.
  std::string library;
  // A program and its arguments that calls RunCompileChild with the argument
  // that comes behind them. Empty: an NPU's compiles happen in this process.
  std::vector<std::string> child_command;
};

// What a process of its own does for a compile, in the folder that its command
// ends with. Errors are StaticDevice::Compile's, and are left in the folder for
// who started it; the process has to end with 0 for success alone.
Status RunCompileChild(const std::string& folder);

// One device that OpenVINO sees.
struct OpenVinoDevice {
  std::string name;       // "CPU", "GPU.0", "NPU"
  std::string full_name;  // "Intel(R) AI Boost"
};

// The library, loaded once for all its devices.
// Threads  any, all calls.
class OpenVino {
 public:
  // kNotFound: no library, all places that were looked at named, and how to get
  // it; kUnsupported: it does not load, lacks a function, is too old (before
  // 2023.2) or numbers its element types in a way that is not known (proved by
  // tensors of each); kIo: it does not start.
  static Result<std::shared_ptr<OpenVino>> Load(const OpenVinoOptions& options);
  virtual ~OpenVino() = default;

  virtual std::string version() const = 0;  // "2026.4.1"
  virtual std::string path() const = 0;
  virtual Result<std::vector<OpenVinoDevice>> Devices() const = 0;

  // "CPU", "GPU", "GPU.1", "NPU", and "NPU:npuw-cpu", which is the NPU's own
  // partitioning carried out on the CPU. kNotFound: no such device, those that
  // are there named; kUnsupported: its plugin is there, but no device or no
  // driver. An NPU's compiles happen in a process of their own where there is a
  // command for one, so that one that hangs or dies takes nothing with it;
  // others, where they have a limit of time or can be cancelled, in a thread
  // that is left behind then.
  virtual Result<std::shared_ptr<StaticDevice>> Open(
      const std::string& device) = 0;
};

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_OPENVINO_H_

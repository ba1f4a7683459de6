// Compiles of OpenVINO's: here, in a thread that is left behind when its time
// is over, or in a process of their own (ov_child.cc).
#ifndef THERMOCLINE_NPU_OV_COMPILE_H_
#define THERMOCLINE_NPU_OV_COMPILE_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "npu/ov_api.h"
#include "npu/ov_properties.h"
#include "npu/static_device.h"

namespace thermocline::npu {

// Made once, for all threads.
struct OvRuntime {
  std::shared_ptr<const OvApi> api;
  OvOwned<OvCore> core;
  std::string library;  // as the caller named it, for processes of its own
};

// kNotFound, kUnsupported: OpenVino::Load's; kIo: OpenVINO does not start.
Result<std::shared_ptr<const OvRuntime>> StartOv(const std::string& library);

// The value of a device's property; an error's message is the device's words.
Result<std::string> OvProperty(const OvRuntime& runtime,
                               const std::string& device,
                               const std::string& key);

// A graph on its way to a device, with all that the compile reads.
struct OvJob {
  std::shared_ptr<const OvRuntime> runtime;
  OvDeviceName device;
  OvProperties properties;
  std::string xml;
  OvOwned<OvTensor> weights;  // of bytes
};

// A copy of the bytes in memory that OpenVINO owns: a model, and what is
// compiled from it, share it for as long as they read it. kResourceExhausted.
Result<OvOwned<OvTensor>> CopyWeights(const OvRuntime& runtime,
                                      std::span<const std::byte> bytes);

// Errors are StaticDevice::Compile's.
Result<OvOwned<OvCompiled>> CompileHere(const OvJob& job);

// The same in a thread, for as long as the options say: kCancelled then. The
// thread cannot be ended: it goes on by itself and throws away what it gets.
// The program then exits without its exit handlers, which would take OpenVINO
// apart under it. kResourceExhausted: no thread.
Result<OvOwned<OvCompiled>> CompileWithin(std::shared_ptr<const OvJob> job,
                                          const CompileOptions& options);

// The same in a process of its own: the compiler of an NPU may hang, crash or
// take all memory, and takes nothing of ours with it then. Writes the job into
// a folder that nobody else can read, calls `command` with that folder behind
// it, and imports what it exported there. The process and all that it started
// are killed when the options say so, and it dies with this one. The
// folder goes in any case, and with the weights in it what is large as soon as
// the process has read it, so that a kill leaves little. kIo besides: the
// program cannot be started, or died.
Result<OvOwned<OvCompiled>> CompileInChild(
    const OvJob& job, const std::vector<std::string>& command,
    const CompileOptions& options);

// kCancelled, for the message of either.
Error CompileTookTooLong(const std::string& device, double most_seconds);

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_OV_COMPILE_H_

// A compiled graph of OpenVINO's with one request.
#ifndef THERMOCLINE_NPU_OV_PROGRAM_H_
#define THERMOCLINE_NPU_OV_PROGRAM_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "npu/graph.h"
#include "npu/ov_compile.h"
#include "npu/static_device.h"

namespace thermocline::npu {

// A parameter or result: what it is, and the caller's memory as OpenVINO sees
// it, null before it is bound.
struct OvSlot {
  Type type;
  OvOwned<OvTensor> tensor;
};
using OvSlots = std::map<std::string, OvSlot, std::less<>>;

class OvProgram : public StaticProgram {
 public:
  // `compiled` is of `graph`, of which names and types are remembered. kIo: the
  // device makes no request.
  static Result<std::unique_ptr<StaticProgram>> Create(
      std::shared_ptr<const OvRuntime> runtime, const std::string& device,
      OvOwned<OvCompiled> compiled, const Graph& graph);

  // kIo besides: the device does not take the memory.
  Status Bind(std::string_view name, const Type& type,
              std::byte* data) override;
  Status Infer() override;
  Status Reset() override;

 private:
  OvProgram(std::shared_ptr<const OvRuntime> runtime, std::string device,
            OvOwned<OvCompiled> compiled, const Graph& graph);
  const OvApi& api() const { return *runtime_->api; }
  Status MakeRequest();
  Status Set(const std::string& name, const OvTensor& tensor);
  Status Failure(std::string_view task, int status) const;

  // In the order in which they may be taken apart, from the last.
  const std::shared_ptr<const OvRuntime> runtime_;
  const std::string device_;
  const OvOwned<OvCompiled> compiled_;
  OvSlots slots_;
  OvOwned<OvRequest> request_;
  const bool has_variables_;
};

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_OV_PROGRAM_H_

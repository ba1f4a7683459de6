#include "npu/ov_program.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "base/quote.h"
#include "npu/ov_errors.h"

namespace thermocline::npu {
namespace {

OvSlots SlotsOf(const Graph& graph) {
  OvSlots slots;
  for (const Node* node : graph.parameters()) {
    slots[node->name].type = node->outputs[0];
  }
  for (const Node* node : graph.results()) {
    slots[node->name].type = graph.type(node->inputs[0]);
  }
  return slots;
}

bool HasVariables(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) {
    return node.op == Op::kReadValue || node.op == Op::kAssign;
  });
}

}  // namespace

OvProgram::OvProgram(std::shared_ptr<const OvRuntime> runtime,
                     std::string device, OvOwned<OvCompiled> compiled,
                     const Graph& graph)
    : runtime_(std::move(runtime)),
      device_(std::move(device)),
      compiled_(std::move(compiled)),
      slots_(SlotsOf(graph)),
      has_variables_(HasVariables(graph)) {}

Result<std::unique_ptr<StaticProgram>> OvProgram::Create(
    std::shared_ptr<const OvRuntime> runtime, const std::string& device,
    OvOwned<OvCompiled> compiled, const Graph& graph) {
  std::unique_ptr<OvProgram> program(
      new OvProgram(std::move(runtime), device, std::move(compiled), graph));
  TC_RETURN_IF_ERROR(program->MakeRequest());
  return program;
}

Status OvProgram::MakeRequest() {
  OvRequest* request = nullptr;
  const int status = api().compiled_request(compiled_.get(), &request);
  if (status != 0) return Failure("making a request", status);
  request_ = OvOwned<OvRequest>(request, {runtime_->api});
  return {};
}

Status OvProgram::Bind(std::string_view name, const Type& type,
                       std::byte* data) {
  const auto found = slots_.find(name);
  if (found == slots_.end()) {
    return Fail(ErrorCode::kNotFound, "{}: the graph has no tensor {}", device_,
                Quote(name));
  }
  auto& [own_name, slot] = *found;
  if (type != slot.type) {
    return Fail(ErrorCode::kInvalidArgument, "{}: tensor {} is {}, not {}",
                device_, Quote(name), ToString(slot.type), ToString(type));
  }
  Dims dims = type.dims;
  OvTensor* tensor = nullptr;
  const int status = api().tensor_of_host(
      api().NumberOf(type.element),
      {static_cast<int64_t>(dims.size()), dims.data()}, data, &tensor);
  if (status != 0) return Failure("naming a tensor's memory", status);
  OvOwned<OvTensor> owned(tensor, {runtime_->api});
  TC_RETURN_IF_ERROR(Set(own_name, *owned));
  slot.tensor = std::move(owned);
  return {};
}

Status OvProgram::Infer() {
  for (const auto& [name, slot] : slots_) TC_CHECK(slot.tensor != nullptr);
  const int status = api().request_infer(request_.get());
  if (status != 0) return Failure("computing a graph", status);
  return {};
}

// The C API does not reach the variables of a request: another one has those
// that it begins with.
Status OvProgram::Reset() {
  if (!has_variables_) return {};
  TC_RETURN_IF_ERROR(MakeRequest());
  for (const auto& [name, slot] : slots_) {
    if (slot.tensor == nullptr) continue;
    TC_RETURN_IF_ERROR(Set(name, *slot.tensor));
  }
  return {};
}

Status OvProgram::Set(const std::string& name, const OvTensor& tensor) {
  const int status = api().request_set(request_.get(), name.c_str(), &tensor);
  if (status == 0) return {};
  return Failure(fmt::format("binding tensor {}", Quote(name)), status);
}

// A program that was compiled has nothing to fail for but its device.
Status OvProgram::Failure(std::string_view task, int status) const {
  Error error = OvError(device_, task, LastWords(api(), status));
  error.code = ErrorCode::kIo;
  return tl::unexpected(std::move(error));
}

}  // namespace thermocline::npu

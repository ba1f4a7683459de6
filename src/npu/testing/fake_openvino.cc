// A library with the functions of OpenVINO's C API that are called, whose
// devices are the reference (fake_settings.h: and what they can be made to do).
#include <algorithm>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "npu/ir.h"
#include "npu/ov_api.h"
#include "npu/static_device.h"
#include "npu/testing/fake_settings.h"
#include "npu/testing/fake_tensor.h"

namespace thermocline::npu {

struct OvCore {
  int number = 0;
};
struct OvModel {
  std::string xml;
  OvTensor weights;
};
struct OvCompiled {
  std::string xml;
  std::string bytes;
  Graph graph;
};
struct OvRequest {
  std::unique_ptr<StaticProgram> program;
  std::map<std::string, Type> types;
  std::map<std::string, OvTensor> tensors;  // of the caller's memory
};

namespace {

char* CopyOf(const std::string& text) { return strdup(text.c_str()); }

bool IsThere(const std::string& device) {
  const std::vector<std::string> there = FakeDevices();
  return std::ranges::find(there, device) != there.end();
}

// What a device takes; all but these are refused, as OpenVINO does.
std::string SupportedBy(const std::string& device) {
  const std::string common = "FULL_DEVICE_NAME PERFORMANCE_HINT";
  if (device == "NPU") return common + " CACHE_DIR NPU_TURBO";
  return common +
         " EXECUTION_MODE_HINT INFERENCE_PRECISION_HINT INFERENCE_NUM_THREADS "
         "DYNAMIC_QUANTIZATION_GROUP_SIZE KV_CACHE_PRECISION";
}

bool Takes(const std::string& device, const std::string& key) {
  if (device == "NPU" && key.starts_with("NPU")) return true;
  const std::string words = " " + SupportedBy(device) + " ";
  return words.find(" " + key + " ") != std::string::npos;
}

int NotRegistered(const std::string& device) {
  return FakeFailure("Exception from src/fake.cpp:7:\nDevice with \"" + device +
                     "\" name is not registered in the OpenVINO Runtime\n");
}

int CheckPlace(const std::string& device, bool is_npuw) {
  if (!FakeHasPlugin(device)) return NotRegistered(device);
  if (IsThere(device) || is_npuw) return kFakeOk;
  return FakeFailure("VCL compiler loading failed, aborting. Error: none");
}

int MakeCompiled(std::string xml, std::string bytes, OvCompiled** compiled) {
  const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
  auto graph = ReadIr(xml, std::vector<std::byte>(data, data + bytes.size()));
  if (!graph.has_value()) return FakeFailure(graph.error().message);
  *compiled = new OvCompiled{.xml = std::move(xml),
                             .bytes = std::move(bytes),
                             .graph = *std::move(graph)};
  return kFakeOk;
}

}  // namespace

// OpenVINO's names; C's functions are the same in every namespace.
// NOLINTBEGIN(readability-identifier-naming)
extern "C" {

int ov_get_openvino_version(OvVersion* version) {
  const int status = FakeOutcome("ov_get_openvino_version");
  if (status != kFakeOk) return status;
  version->build = CopyOf(FakeVersion());
  version->description = nullptr;
  return kFakeOk;
}

void ov_version_free(OvVersion* version) {
  std::free(const_cast<char*>(version->build));
}

const char* ov_get_last_err_msg() { return CopyOf(FakeLastWords()); }

void ov_free(const char* text) { std::free(const_cast<char*>(text)); }

int ov_core_create(OvCore** core) {
  const int status = FakeOutcome("ov_core_create");
  if (status == kFakeOk) *core = new OvCore;
  return status;
}

void ov_core_free(OvCore* core) { delete core; }

int ov_core_get_available_devices(const OvCore* /*core*/, OvDevices* devices) {
  const int status = FakeOutcome("ov_core_get_available_devices");
  if (status != kFakeOk) return status;
  const std::vector<std::string> names = FakeDevices();
  devices->names = new char*[names.size()];
  devices->count = names.size();
  for (size_t i = 0; i < names.size(); ++i) {
    devices->names[i] = CopyOf(names[i]);
  }
  return kFakeOk;
}

void ov_available_devices_free(OvDevices* devices) {
  for (size_t i = 0; i < devices->count; ++i) std::free(devices->names[i]);
  delete[] devices->names;
}

int ov_core_get_property(const OvCore* /*core*/, const char* device,
                         const char* key, char** value) {
  if (!FakeHasPlugin(device)) return NotRegistered(device);
  if (key == std::string_view("SUPPORTED_PROPERTIES")) {
    *value = CopyOf(SupportedBy(device));
    return kFakeOk;
  }
  if (!IsThere(device)) {
    return FakeFailure(std::string("Unsupported configuration key: ") + key);
  }
  *value = CopyOf(std::string("Fake ") + device);
  return kFakeOk;
}

int ov_core_read_model_from_memory_buffer(const OvCore* /*core*/,
                                          const char* xml, size_t num_chars,
                                          const OvTensor* weights,
                                          OvModel** model) {
  *model = new OvModel{.xml = {xml, num_chars}, .weights = *weights};
  return kFakeOk;
}

void ov_model_free(OvModel* model) { delete model; }

int ov_core_compile_model(const OvCore* /*core*/, const OvModel* model,
                          const char* device, size_t num_strings,
                          OvCompiled** compiled, ...) {
  std::va_list strings;
  va_start(strings, compiled);
  std::string line = std::string("compile ") + device;
  std::string refused;
  for (size_t i = 0; i + 1 < num_strings; i += 2) {
    const std::string key = va_arg(strings, const char*);
    line += " " + key + "=" + va_arg(strings, const char*);
    if (!Takes(device, key)) refused = key;
  }
  va_end(strings);
  FakeLog(line);
  const bool is_npuw = line.find(" NPU_USE_NPUW=YES") != std::string::npos;
  int status = FakeOutcome("ov_core_compile_model");
  if (status == kFakeOk) status = CheckPlace(device, is_npuw);
  if (status == kFakeOk && !refused.empty()) {
    status = FakeFailure("Unsupported property " + refused + " by " + device +
                         " plugin");
  }
  if (status != kFakeOk) return status;
  FakeHangOrCrash();
  const auto bytes = model->weights.bytes();
  return MakeCompiled(
      model->xml, {reinterpret_cast<const char*>(bytes.data()), bytes.size()},
      compiled);
}

int ov_core_import_model(const OvCore* /*core*/, const char* blob,
                         size_t num_bytes, const char* device,
                         OvCompiled** compiled) {
  FakeLog(std::string("import ") + device);
  const int status = FakeOutcome("ov_core_import_model");
  if (status != kFakeOk) return status;
  const std::string_view text(blob, num_bytes);
  const size_t end = text.find('\0');
  if (end == std::string_view::npos) return FakeFailure("no blob of mine");
  return MakeCompiled(std::string(text.substr(0, end)),
                      std::string(text.substr(end + 1)), compiled);
}

int ov_compiled_model_export_model(const OvCompiled* compiled,
                                   const char* path) {
  std::ofstream(path, std::ios::binary)
      << compiled->xml << '\0' << compiled->bytes;
  return FakeOutcome("ov_compiled_model_export_model");
}

int ov_compiled_model_create_infer_request(const OvCompiled* compiled,
                                           OvRequest** request) {
  const int status = FakeOutcome("ov_compiled_model_create_infer_request");
  if (status != kFakeOk) return status;
  auto program = MakeReferenceDevice()->Compile(compiled->graph, {});
  if (!program.has_value()) return FakeFailure(program.error().message);
  *request = new OvRequest{.program = *std::move(program)};
  for (const Node* node : compiled->graph.parameters()) {
    (*request)->types[node->name] = node->outputs[0];
  }
  for (const Node* node : compiled->graph.results()) {
    (*request)->types[node->name] = compiled->graph.type(node->inputs[0]);
  }
  return kFakeOk;
}

void ov_compiled_model_free(OvCompiled* compiled) { delete compiled; }

int ov_infer_request_set_tensor(OvRequest* request, const char* name,
                                const OvTensor* tensor) {
  const int status = FakeOutcome("ov_infer_request_set_tensor");
  if (status != kFakeOk) return status;
  const auto type = request->types.find(name);
  if (type == request->types.end()) {
    return FakeFailure(std::string("Port for tensor name ") + name +
                       " was not found.");
  }
  if (!tensor->element.has_value() ||
      type->second != Type{*tensor->element, tensor->dims}) {
    return FakeFailure("The tensor is not of the port's type");
  }
  request->tensors[name] = *tensor;
  return kFakeOk;
}

#ifndef TC_FAKE_LACKS_INFER
int ov_infer_request_infer(OvRequest* request) {
  int status = FakeOutcome("ov_infer_request_infer");
  if (status != kFakeOk) return status;
  for (const auto& [name, type] : request->types) {
    const auto tensor = request->tensors.find(name);
    if (tensor == request->tensors.end()) {
      return FakeFailure("no memory for " + name);
    }
    const auto bound = request->program->Bind(name, type, tensor->second.data);
    if (!bound.has_value()) return FakeFailure(bound.error().message);
  }
  const auto done = request->program->Infer();
  return done.has_value() ? kFakeOk : FakeFailure(done.error().message);
}
#endif

void ov_infer_request_free(OvRequest* request) { delete request; }

}  // extern "C"
// NOLINTEND(readability-identifier-naming)

}  // namespace thermocline::npu

// OpenVINO's C API as a table of functions that is filled when a program runs:
// no header of OpenVINO is needed to build, and its C++ runtime is no concern.
#ifndef THERMOCLINE_NPU_OV_API_H_
#define THERMOCLINE_NPU_OV_API_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "npu/graph.h"

namespace thermocline::npu {

// What the API passes by value or fills, laid out alike since 2022.
struct OvShape {
  int64_t rank;
  int64_t* dims;
};
struct OvVersion {
  const char* build;
  const char* description;
};
struct OvDevices {
  char** names;
  size_t count;
};

// Its handles.
struct OvCore;
struct OvModel;
struct OvCompiled;
struct OvRequest;
struct OvTensor;

// Every function returns 0, or a negative status.
struct OvApi {
  int (*get_version)(OvVersion*) = nullptr;
  void (*version_free)(OvVersion*) = nullptr;
  // The words for the last failure of any thread, to be freed, or null.
  const char* (*last_words)() = nullptr;
  void (*free_text)(const char*) = nullptr;

  int (*core_create)(OvCore**) = nullptr;
  void (*core_free)(OvCore*) = nullptr;
  int (*core_devices)(const OvCore*, OvDevices*) = nullptr;
  void (*devices_free)(OvDevices*) = nullptr;
  int (*core_property)(const OvCore*, const char* device, const char* key,
                       char** value) = nullptr;
  int (*core_read)(const OvCore*, const char* xml, size_t num_chars,
                   const OvTensor* weights, OvModel**) = nullptr;
  // Behind them: keys and values in turn, as many strings as `num_strings`.
  int (*core_compile)(const OvCore*, const OvModel*, const char* device,
                      size_t num_strings, OvCompiled**, ...) = nullptr;
  int (*core_import)(const OvCore*, const char* blob, size_t num_bytes,
                     const char* device, OvCompiled**) = nullptr;
  void (*model_free)(OvModel*) = nullptr;

  int (*compiled_export)(const OvCompiled*, const char* path) = nullptr;
  int (*compiled_request)(const OvCompiled*, OvRequest**) = nullptr;
  void (*compiled_free)(OvCompiled*) = nullptr;

  int (*request_set)(OvRequest*, const char* name, const OvTensor*) = nullptr;
  int (*request_infer)(OvRequest*) = nullptr;
  void (*request_free)(OvRequest*) = nullptr;

  int (*tensor_create)(uint32_t type, OvShape, OvTensor**) = nullptr;
  int (*tensor_of_host)(uint32_t type, OvShape, void*, OvTensor**) = nullptr;
  int (*tensor_data)(const OvTensor*, void**) = nullptr;
  int (*tensor_bytes)(const OvTensor*, size_t*) = nullptr;
  void (*tensor_free)(OvTensor*) = nullptr;

  std::string path;     // of the library
  std::string version;  // "2026.4.1"
  // The number of each Element.
  std::array<uint32_t, 8> types = {};

  uint32_t NumberOf(Element element) const {
    return types[static_cast<size_t>(element)];
  }
};

// Fills the table; the library stays loaded until the program ends, since
// threads of its own may run until then. library: OpenVinoOptions'. kNotFound,
// kUnsupported: OpenVino::Load's.
Result<std::shared_ptr<const OvApi>> LoadOvApi(const std::string& library);

// Of "2026.4.1-22982-0a1b2c-releases": year, minor, patch.
using OvNumbers = std::array<int, 3>;
std::optional<OvNumbers> ParseOvVersion(std::string_view build);

// Owns what the API hands out, and the table.
struct OvDeleter {
  std::shared_ptr<const OvApi> api;
  void operator()(OvCore* core) const { api->core_free(core); }
  void operator()(OvModel* model) const { api->model_free(model); }
  void operator()(OvCompiled* compiled) const { api->compiled_free(compiled); }
  void operator()(OvRequest* request) const { api->request_free(request); }
  void operator()(OvTensor* tensor) const { api->tensor_free(tensor); }
};
template <typename T>
using OvOwned = std::unique_ptr<T, OvDeleter>;

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_OV_API_H_

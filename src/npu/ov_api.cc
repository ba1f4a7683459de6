#include "npu/ov_api.h"

#include <dlfcn.h>

#include <charconv>
#include <span>
#include <utility>

#include "base/quote.h"
#include "npu/ov_library.h"

namespace thermocline::npu {
namespace {

constexpr OvNumbers kOldest = {2023, 2, 0};
// Beyond it a number is no year.
constexpr int kLastYear = 2100;

// Looks functions up, and keeps the names of those that are not there.
class Symbols {
 public:
  explicit Symbols(void* library) : library_(library) {}

  template <typename Function>
  void Find(Function& slot, const char* name) {
    slot = reinterpret_cast<Function>(dlsym(library_, name));
    if (slot == nullptr) missing_ += fmt::format(" {}", name);
  }
  template <typename Function>
  void FindIfThere(Function& slot, const char* name) {
    slot = reinterpret_cast<Function>(dlsym(library_, name));
  }
  const std::string& missing() const { return missing_; }

 private:
  void* library_;
  std::string missing_;
};

std::string FindFunctions(void* library, OvApi* api) {
  Symbols symbols(library);
  symbols.Find(api->get_version, "ov_get_openvino_version");
  symbols.Find(api->version_free, "ov_version_free");
  symbols.FindIfThere(api->last_words, "ov_get_last_err_msg");
  symbols.Find(api->free_text, "ov_free");
  symbols.Find(api->core_create, "ov_core_create");
  symbols.Find(api->core_free, "ov_core_free");
  symbols.Find(api->core_devices, "ov_core_get_available_devices");
  symbols.Find(api->devices_free, "ov_available_devices_free");
  symbols.Find(api->core_property, "ov_core_get_property");
  symbols.Find(api->core_read, "ov_core_read_model_from_memory_buffer");
  symbols.Find(api->core_compile, "ov_core_compile_model");
  symbols.Find(api->core_import, "ov_core_import_model");
  symbols.Find(api->model_free, "ov_model_free");
  symbols.Find(api->compiled_export, "ov_compiled_model_export_model");
  symbols.Find(api->compiled_request, "ov_compiled_model_create_infer_request");
  symbols.Find(api->compiled_free, "ov_compiled_model_free");
  symbols.Find(api->request_set, "ov_infer_request_set_tensor");
  symbols.Find(api->request_infer, "ov_infer_request_infer");
  symbols.Find(api->request_free, "ov_infer_request_free");
  symbols.Find(api->tensor_create, "ov_tensor_create");
  symbols.Find(api->tensor_of_host, "ov_tensor_create_from_host_ptr");
  symbols.Find(api->tensor_data, "ov_tensor_data");
  symbols.Find(api->tensor_bytes, "ov_tensor_get_byte_size");
  symbols.Find(api->tensor_free, "ov_tensor_free");
  return symbols.missing();
}

// The enumeration of element types, which changed twice: "undefined" left its
// beginning, and unsigned types of 2, 3 and 6 bits came in. So the numbers are
// looked for among the ways there were, and taken when all agree with the
// sizes of tensors.
struct Numbering {
  uint32_t first;  // of boolean
  bool has_odd_bits;
};
constexpr std::array<Numbering, 4> kNumberings = {
    {{1, true}, {2, false}, {2, true}, {1, false}}};
// Boolean, bf16, f16, f32, f64, i4, i8, i16, i32, i64, u1, then u4 and u8.
constexpr std::array<size_t, 13> kBits = {8,  16, 16, 32, 64, 4, 8,
                                          16, 32, 64, 1,  4,  8};
constexpr std::array<size_t, 16> kBitsWithOdd = {8,  16, 16, 32, 64, 4, 8, 16,
                                                 32, 64, 1,  2,  3,  4, 6, 8};

std::span<const size_t> BitsOf(const Numbering& numbering) {
  return numbering.has_odd_bits ? std::span<const size_t>(kBitsWithOdd)
                                : std::span<const size_t>(kBits);
}

// Eight elements, so that bits are bytes.
bool HasBits(const OvApi& api, uint32_t type, size_t bits) {
  alignas(64) std::array<std::byte, 64> memory;
  int64_t extent = 8;
  OvTensor* tensor = nullptr;
  if (api.tensor_of_host(type, {1, &extent}, memory.data(), &tensor) != 0) {
    return false;
  }
  size_t num_bytes = 0;
  const int status = api.tensor_bytes(tensor, &num_bytes);
  api.tensor_free(tensor);
  return status == 0 && num_bytes == bits;
}

bool IsProved(const OvApi& api, const Numbering& numbering) {
  uint32_t type = numbering.first;
  for (const size_t bits : BitsOf(numbering)) {
    if (!HasBits(api, type++, bits)) return false;
  }
  return true;
}

// In the order of Element.
std::array<uint32_t, 8> NumbersOf(const Numbering& numbering) {
  const uint32_t boolean = numbering.first;
  const uint32_t u4 = boolean + (numbering.has_odd_bits ? 13 : 11);
  const uint32_t u8 = boolean + (numbering.has_odd_bits ? 15 : 12);
  return {boolean + 3, boolean + 2, boolean + 9, boolean + 6,
          u8,          boolean + 5, u4,          boolean};
}

Status FindTypes(OvApi* api) {
  for (const Numbering& numbering : kNumberings) {
    if (!IsProved(*api, numbering)) continue;
    api->types = NumbersOf(numbering);
    return {};
  }
  return Fail(ErrorCode::kUnsupported,
              "OpenVINO {} at {}: its element types are not numbered in any of "
              "the ways known here, as sizes of tensors show",
              api->version, api->path);
}

Status ReadVersion(OvApi* api) {
  OvVersion version = {};
  if (api->get_version(&version) != 0) {
    return Fail(ErrorCode::kUnsupported, "{}: does not tell its version",
                api->path);
  }
  const std::string build = version.build == nullptr ? "" : version.build;
  api->version_free(&version);
  const std::optional<OvNumbers> numbers = ParseOvVersion(build);
  if (!numbers.has_value()) {
    return Fail(ErrorCode::kUnsupported,
                "{}: its version {} is not one of OpenVINO", api->path,
                Quote(build));
  }
  const auto& [year, minor, patch] = *numbers;
  api->version = fmt::format("{}.{}.{}", year, minor, patch);
  if (*numbers < kOldest) {
    return Fail(ErrorCode::kUnsupported,
                "{}: OpenVINO {} is too old; 2023.2 is the first that will do",
                api->path, api->version);
  }
  return {};
}

// The file behind a name that the system found.
std::string PathOf(const OvLibrary& library, const OvApi& api) {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<void*>(api.free_text), &info) == 0 ||
      info.dli_fname == nullptr) {
    return library.name;
  }
  return info.dli_fname;
}

}  // namespace

std::optional<OvNumbers> ParseOvVersion(std::string_view build) {
  OvNumbers numbers = {};
  const char* at = build.data();
  const char* end = at + build.size();
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0) {
      if (at == end || *at != '.') return std::nullopt;
      ++at;
    }
    const auto parsed = std::from_chars(at, end, numbers[i]);
    if (parsed.ec != std::errc() || numbers[i] < 0) return std::nullopt;
    at = parsed.ptr;
  }
  // What follows tells which build it is.
  if (at != end && *at != '-') return std::nullopt;
  if (numbers[0] < 2000 || numbers[0] > kLastYear) return std::nullopt;
  return numbers;
}

Result<std::shared_ptr<const OvApi>> LoadOvApi(const std::string& library) {
  TC_ASSIGN_OR_RETURN(const OvLibrary found, OpenLibrary(library));
  auto api = std::make_shared<OvApi>();
  const std::string missing = FindFunctions(found.handle, api.get());
  if (!missing.empty()) {
    return Fail(ErrorCode::kUnsupported,
                "{}: is no OpenVINO of 2023.2 or later: it lacks{}", found.name,
                missing);
  }
  api->path = PathOf(found, *api);
  TC_RETURN_IF_ERROR(ReadVersion(api.get()));
  TC_RETURN_IF_ERROR(FindTypes(api.get()));
  return api;
}

}  // namespace thermocline::npu

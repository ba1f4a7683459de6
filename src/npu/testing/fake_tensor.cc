#include "npu/testing/fake_tensor.h"

#include <array>
#include <string_view>

#include "npu/testing/fake_settings.h"

namespace thermocline::npu {
namespace {

struct TypeOfFake {
  std::string_view name;
  size_t bits;
};
constexpr std::array<TypeOfFake, 17> kTypesOf2026 = {{{"dynamic", 0},
                                                      {"boolean", 8},
                                                      {"bf16", 16},
                                                      {"f16", 16},
                                                      {"f32", 32},
                                                      {"f64", 64},
                                                      {"i4", 4},
                                                      {"i8", 8},
                                                      {"i16", 16},
                                                      {"i32", 32},
                                                      {"i64", 64},
                                                      {"u1", 1},
                                                      {"u2", 2},
                                                      {"u3", 3},
                                                      {"u4", 4},
                                                      {"u6", 6},
                                                      {"u8", 8}}};

// Before 2026 the enumeration begins with "undefined"; in its first years it
// does not have the types that are no power of two, nor u2.
std::vector<TypeOfFake> TypesNow() {
  std::vector<TypeOfFake> types(kTypesOf2026.begin(), kTypesOf2026.end());
  if (FakeTypesAreStrange()) return {types.rbegin(), types.rend()};
  const std::string version = FakeVersion();
  if (version >= "2026") return types;
  types.insert(types.begin(), {"undefined", 0});
  if (version < "2025") {
    std::erase_if(types, [](const TypeOfFake& type) {
      return type.name == "u2" || type.name == "u3" || type.name == "u6";
    });
  }
  return types;
}

int Describe(uint32_t type, const OvShape& shape, OvTensor* tensor) {
  const std::vector<TypeOfFake> types = TypesNow();
  if (type >= types.size() || types[type].bits == 0) {
    return FakeFailure("Cannot allocate memory of this type");
  }
  tensor->type_number = type;
  tensor->element = ParseElement(types[type].name);
  tensor->dims.assign(shape.dims, shape.dims + shape.rank);
  const auto count = static_cast<size_t>(NumElements(tensor->dims));
  tensor->num_bytes = (count * types[type].bits + 7) / 8;
  return kFakeOk;
}

}  // namespace

// OpenVINO's names; C's functions are the same in every namespace.
// NOLINTBEGIN(readability-identifier-naming)
extern "C" {

int ov_tensor_create_from_host_ptr(uint32_t type, OvShape shape, void* data,
                                   OvTensor** tensor) {
  int status = FakeOutcome("ov_tensor_create_from_host_ptr");
  auto made = std::make_unique<OvTensor>();
  if (status == kFakeOk) {
    status = thermocline::npu::Describe(type, shape, made.get());
  }
  if (status != kFakeOk) return status;
  made->data = static_cast<std::byte*>(data);
  *tensor = made.release();
  return kFakeOk;
}

int ov_tensor_create(uint32_t type, OvShape shape, OvTensor** tensor) {
  int status = FakeOutcome("ov_tensor_create");
  auto made = std::make_unique<OvTensor>();
  if (status == kFakeOk) {
    status = thermocline::npu::Describe(type, shape, made.get());
  }
  if (status != kFakeOk) return status;
  made->memory = std::make_shared<std::vector<std::byte>>(made->num_bytes);
  made->data = made->memory->data();
  *tensor = made.release();
  return kFakeOk;
}

int ov_tensor_data(const OvTensor* tensor, void** data) {
  *data = tensor->data;
  return kFakeOk;
}

int ov_tensor_get_byte_size(const OvTensor* tensor, size_t* num_bytes) {
  *num_bytes = tensor->num_bytes;
  return kFakeOk;
}

void ov_tensor_free(OvTensor* tensor) { delete tensor; }

}  // extern "C"
// NOLINTEND(readability-identifier-naming)

}  // namespace thermocline::npu

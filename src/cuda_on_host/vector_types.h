// CUDA's vector types. Their copies are calls, so that one access of 8 or 16
// bytes is seen as one, whatever the optimiser would make of it.
#ifndef THERMOCLINE_CUDA_ON_HOST_VECTOR_TYPES_H_
#define THERMOCLINE_CUDA_ON_HOST_VECTOR_TYPES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace thermocline::cuda_on_host {

// memcpy, and what the checker has to know of it. `pc` names the place.
void CopyVector(void* to, const void* from, size_t bytes, const void* pc);

}  // namespace thermocline::cuda_on_host

// CUDA's names. NOLINTBEGIN(readability-identifier-naming)

struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  unsigned x, y, z;
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1)
      : x(a), y(b), z(c) {}
};

#define TC_VECTOR_TYPE(Element, Name, count, ...)                         \
  struct alignas((count) * sizeof(Element)) Name {                        \
    Element __VA_ARGS__;                                                  \
    Name() = default;                                                     \
    [[gnu::noinline]] Name(const Name& other) {                           \
      thermocline::cuda_on_host::CopyVector(this, &other, sizeof other,   \
                                            __builtin_return_address(0)); \
    }                                                                     \
    [[gnu::noinline]] Name& operator=(const Name& other) {                \
      thermocline::cuda_on_host::CopyVector(this, &other, sizeof other,   \
                                            __builtin_return_address(0)); \
      return *this;                                                       \
    }                                                                     \
    static Name Of(const Element (&elements)[count]) {                    \
      Name name;                                                          \
      std::memcpy(static_cast<void*>(&name), elements, sizeof name);      \
      return name;                                                        \
    }                                                                     \
  };

TC_VECTOR_TYPE(float, float2, 2, x, y)
TC_VECTOR_TYPE(float, float4, 4, x, y, z, w)
TC_VECTOR_TYPE(int, int2, 2, x, y)
TC_VECTOR_TYPE(int, int4, 4, x, y, z, w)
TC_VECTOR_TYPE(unsigned, uint2, 2, x, y)
TC_VECTOR_TYPE(unsigned, uint4, 4, x, y, z, w)
#undef TC_VECTOR_TYPE

inline float2 make_float2(float x, float y) { return float2::Of({x, y}); }
inline float4 make_float4(float x, float y, float z, float w) {
  return float4::Of({x, y, z, w});
}
inline int2 make_int2(int x, int y) { return int2::Of({x, y}); }
inline int4 make_int4(int x, int y, int z, int w) {
  return int4::Of({x, y, z, w});
}
inline uint2 make_uint2(unsigned x, unsigned y) { return uint2::Of({x, y}); }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return uint4::Of({x, y, z, w});
}

// NOLINTEND(readability-identifier-naming)

#endif  // THERMOCLINE_CUDA_ON_HOST_VECTOR_TYPES_H_

// Activations rounded to 8 bits for products with block-quantised weights.
#ifndef THERMOCLINE_KERNELS_ACTIVATION_ROW_H_
#define THERMOCLINE_KERNELS_ACTIVATION_ROW_H_

#include <cstddef>
#include <cstdint>

namespace thermocline::kernels {

// One row of n elements, n % 32 == 0, in one piece of memory, 64-byte aligned,
// as three arrays one after another:
//   d    [n / 32] f32  scale of each block of 32: max|x| / 127
//   sum  [n / 16] i16  sum of each 16 quants: terms with a constant (the -8 of
//                      Q4_0, the minimum of Q4_K, the -32 of Q6_K) need it
//   q    [n] i8        round-to-nearest-even(x / d), in [-127, 127]
// q starts at the next multiple of 64 bytes.
struct ActivationRow {
  float* d;
  int16_t* sum;
  int8_t* q;
};

// The functions are always inlined: files compiled for different instruction
// sets use them, and the linker would keep one copy for all.
[[gnu::always_inline]] constexpr size_t ActivationQuantOffset(size_t n) {
  return (n / 32 * sizeof(float) + n / 16 * sizeof(int16_t) + 63) / 64 * 64;
}

// Bytes of one row; a multiple of 64.
[[gnu::always_inline]] constexpr size_t ActivationRowBytes(size_t n) {
  return ActivationQuantOffset(n) + (n + 63) / 64 * 64;
}

[[gnu::always_inline]] inline ActivationRow ActivationRowAt(std::byte* base,
                                                            size_t n) {
  return {reinterpret_cast<float*>(base),
          reinterpret_cast<int16_t*>(base + n / 32 * sizeof(float)),
          reinterpret_cast<int8_t*>(base + ActivationQuantOffset(n))};
}

}  // namespace thermocline::kernels

#endif  // THERMOCLINE_KERNELS_ACTIVATION_ROW_H_

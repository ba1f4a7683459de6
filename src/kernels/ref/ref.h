// The scalar kernels: plain C++, the reference for all others and the table of
// Isa::kScalar. Slow on purpose: sums of products are double, element after
// element.
// Contracts: kernels/kernels.h.
#ifndef THERMOCLINE_KERNELS_REF_REF_H_
#define THERMOCLINE_KERNELS_REF_REF_H_

#include <cstddef>

#include "kernels/kernels.h"

namespace thermocline::kernels::ref {

// Null for types that cannot be computed.
MatMulFn MatMulFor(DType weight_dtype);
DotRowsFn DotRowsFor(DType weight_dtype);
AddRowsFn AddRowsFor(DType row_dtype);

void QuantizeActivations(const float* x, size_t n, std::byte* out);
void RmsNorm(const float* x, const float* weight, float eps, size_t n,
             float* out);
void LayerNorm(const float* x, const float* weight, const float* bias,
               float eps, size_t n, float* out);
void Rope(float* heads, size_t num_heads, size_t head_width, RopeKind kind,
          const float* cos, const float* sin, size_t num_pairs);
void Activate(Activation activation, float threshold, const float* gate,
              const float* up, size_t n, float* out);
void PackSigns(const float* x, size_t n, uint64_t* words);
void CountDifferences(const uint64_t* rows, size_t num_rows, const uint64_t* x,
                      size_t num_words, uint32_t* out);
void Add(const float* x, size_t n, float* y);
void StoreRow(DType dtype, const float* x, size_t n, std::byte* out);
void Attention(const AttentionArgs& args);
void MergeAttention(const float* partial, size_t v_width, float* sum);
void FinishAttention(const float* sum, size_t v_width, float* out);
bool AllFinite(const float* x, size_t n);

}  // namespace thermocline::kernels::ref

#endif  // THERMOCLINE_KERNELS_REF_REF_H_

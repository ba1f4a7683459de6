// Every activation of one batch, carved out of one piece of memory.
#ifndef THERMOCLINE_ENGINE_SCRATCH_H_
#define THERMOCLINE_ENGINE_SCRATCH_H_

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "engine/rows.h"
#include "model/config.h"

namespace thermocline::engine {

struct ScratchShape {
  int64_t batch;    // B: rows of each matrix below, >= 1
  int64_t context;  // positions that attention scores, >= 1
  int num_threads;  // >= 1
};

// Views only; rows and arrays start at multiples of 64 bytes. The activations
// of a sub-layer are not kept for the next.
struct Scratch {
  Rows residual;            // [B, D] the stream that layers add to
  Rows normed;              // [B, D] input of a sub-layer
  Rows delta;               // [B, D] output of a sub-layer
  Rows q;                   // [B, H * K]
  Rows k;                   // [B, KVH * K]
  Rows v;                   // [B, KVH * Kv]
  Rows attended;            // [B, H * Kv]
  Rows gate;                // [B, F]; no data if the FFN has no gate
  Rows up;                  // [B, F]
  Rows rope_cos;            // [B, pairs]
  Rows rope_sin;            // [B, pairs]
  Rows scores;              // [threads, H / KVH * context]
  std::byte* rounded_rows;  // B activation rows of the widest matrix input
};

// Bytes that MakeScratch needs. kResourceExhausted: more than 64 bits hold.
Result<uint64_t> ScratchBytes(const model::Config& config,
                              const ScratchShape& shape);

// Views into `base`, ScratchBytes() bytes, 64-byte aligned. Requires that
// ScratchBytes succeeds for the same arguments.
Scratch MakeScratch(const model::Config& config, const ScratchShape& shape,
                    std::byte* base);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_SCRATCH_H_

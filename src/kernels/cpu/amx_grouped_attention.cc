// Attention of few tokens whose heads share keys and values, in F16, in AMX
// tiles of bf16: the halves of amx_attention.cc, for up to eight queries where
// that has sixteen at a time. Memory, not arithmetic, is to be the limit here:
// while vectors split what is read, eight lines at a time, the tiles'
// instructions work on what was split before, and with every line that is split
// one is prefetched far ahead and one near by. In bursts each of these would
// wait for the others.
//
// More queries meet what was split in blocks of up to eight.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/ahead.h"
#include "kernels/cpu/amx_attention.h"
#include "kernels/cpu/amx_grouped_scores.h"
#include "kernels/cpu/amx_grouped_sums.h"
#include "kernels/cpu/amx_tiles.h"

namespace thermocline::kernels {
namespace {

template <size_t kWidth>
bool Attend(const AttentionArgs& args) {
  const GroupedScores<kWidth> scores(args);
  const GroupedSums<kWidth> sums(args);
  StreamsAhead ahead = scores.Ahead();
  const TileConfig config;
  _tile_loadconfig(&config);
  scores.Run(ahead);
  sums.Run(ahead);
  _tile_release();
  return sums.Finish();
}

}  // namespace

bool AmxGroupedAttention(const AttentionArgs& args) {
  if (args.k_dtype != DType::kF16 || args.v_dtype != DType::kF16 ||
      args.v_width != args.k_width ||
      args.k_stride_bytes != args.k_width * sizeof(uint16_t) ||
      args.v_stride_bytes != args.k_stride_bytes) {
    return false;
  }
  if (args.k_width == 64) return Attend<64>(args);
  if (args.k_width == 128) return Attend<128>(args);
  return false;
}

}  // namespace thermocline::kernels

// Signs of floats as packed bits, and in how many of them rows differ.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/float_kernels.h"
#include "kernels/cpu/float_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/float_signs.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/float_rows-inl.h"

#if HWY_TARGET != HWY_EMU128
HWY_BEFORE_NAMESPACE();
namespace thermocline::kernels::HWY_NAMESPACE {

// Bit i says that lane i is negative.
HWY_INLINE uint64_t SignsOf(FloatVec v) {
  uint8_t bits[8] = {};
  hn::StoreMaskBits(Floats(), hn::Lt(v, hn::Zero(Floats())), bits);
  uint64_t signs;
  std::memcpy(&signs, bits, sizeof(signs));
  return signs;
}

void PackSigns(const float* x, size_t n, uint64_t* words) {
  for (size_t begin = 0; begin < n; begin += 64) {
    const size_t count = std::min<size_t>(64, n - begin);
    uint64_t word = 0;
    ForEachVector(count, [&](size_t i, size_t lanes) HWY_ATTR {
      word |= SignsOf(LoadN(x + begin + i, lanes)) << i;
    });
    words[begin / 64] = word;
  }
}

using Words = hn::ScalableTag<uint64_t>;
using WordVec = hn::Vec<Words>;
constexpr size_t kWordLanes = hn::MaxLanes(Words());

// Words [0, count) of p, then zeros.
HWY_INLINE WordVec LoadWords(const uint64_t* p, size_t count) {
  if (count == kWordLanes) return hn::LoadU(Words(), p);
  HWY_ALIGN uint64_t lanes[kWordLanes] = {};
  std::memcpy(lanes, p, count * sizeof(*p));
  return hn::Load(Words(), lanes);
}

// Vectors whose bits can be counted byte by byte, 8 at most each.
constexpr size_t kMaxVectors = 255 / 8;

// The bits in which two rows differ; in 64-bit lanes, to be added.
HWY_INLINE WordVec DifferencesOf(const uint64_t* row, const uint64_t* x,
                                 size_t num_words) {
  const hn::Repartition<uint8_t, Words> bytes;
  WordVec sums = hn::Zero(Words());
  while (num_words > 0) {
    auto counts = hn::Zero(bytes);
    for (size_t v = 0; v < kMaxVectors && num_words > 0; ++v) {
      const size_t count = std::min(kWordLanes, num_words);
      const WordVec differences =
          hn::Xor(LoadWords(row, count), LoadWords(x, count));
      counts =
          hn::Add(counts, hn::PopulationCount(hn::BitCast(bytes, differences)));
      row += count;
      x += count;
      num_words -= count;
    }
    sums = hn::Add(sums, hn::SumsOf8(counts));
  }
  return sums;
}

void CountDifferences(const uint64_t* rows, size_t num_rows, const uint64_t* x,
                      size_t num_words, uint32_t* out) {
  for (size_t r = 0; r < num_rows; ++r) {
    const WordVec sums = DifferencesOf(rows + r * num_words, x, num_words);
    out[r] = static_cast<uint32_t>(hn::GetLane(hn::SumOfLanes(Words(), sums)));
  }
}

void FillSigns(KernelTable& table) {
  table.pack_signs = PackSigns;
  table.count_differences = CountDifferences;
}

}  // namespace thermocline::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace thermocline::kernels {

void FillFloatSigns(Isa isa, KernelTable& table) {
  TC_CALL_FOR_ISA(isa, FillSigns, table)
}

}  // namespace thermocline::kernels
#endif

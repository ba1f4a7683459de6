// The operations on KV pages.
#include <algorithm>
#include <cstring>

#include "device/sim/sim_ops.h"

namespace thermocline::device {
namespace {

constexpr size_t kHalf = sizeof(uint16_t);
constexpr size_t kPiece = kernels::kAttentionPiece;
static_assert(kernels::kDevicePiece == kPiece);
static_assert(kernels::kDevicePage == kernels::kKvPage);

// Where the keys of a head begin in a page, and its values.
size_t KeysAt(const kernels::DeviceKv& kv, size_t head) {
  return kv.k_offset + head * kernels::kDevicePage * kv.k_width * kHalf;
}
size_t ValuesAt(const kernels::DeviceKv& kv, size_t head) {
  return kv.v_offset + head * kernels::kDevicePage * kv.v_width * kHalf;
}

// What one row sees of the piece that begins at `begin`, and where the keys and
// values of a head lie for it.
struct Piece {
  Piece(const kernels::DecodeAttentionArgs& args, size_t token_idx,
        size_t kv_head, size_t at)
      : begin(at), end(std::min<size_t>(at + kPiece, args.counts[token_idx])) {
    const kernels::DeviceKv& kv = args.kv;
    const size_t first = args.first == nullptr ? 0 : args.first[token_idx];
    const uint32_t* pages = args.page_table + token_idx * args.table_stride;
    for (size_t p = std::max(begin, first) / kernels::kKvPage;
         p * kernels::kKvPage < end; ++p) {
      const std::byte* page = kv.pages + pages[p] * kv.page_bytes;
      k[p - begin / kernels::kKvPage] = page + KeysAt(kv, kv_head);
      v[p - begin / kernels::kKvPage] = page + ValuesAt(kv, kv_head);
    }
    if (first > begin) window = static_cast<int64_t>(first - begin);
  }

  size_t begin, end;
  int64_t window = kernels::kNoWindow;
  const std::byte* k[kPiece / kernels::kKvPage] = {};
  const std::byte* v[kPiece / kernels::kKvPage] = {};
};

// Of heads from `row` of q on. Scratch memory and result are still to be given.
kernels::AttentionArgs AttentionOf(const kernels::DecodeAttentionArgs& args,
                                   const Piece& piece, size_t row,
                                   size_t num_heads) {
  const kernels::DeviceKv& kv = args.kv;
  return {.q = args.q + row * kv.k_width,
          .q_stride = num_heads * kv.k_width,
          .num_tokens = 1,
          .num_heads = num_heads,
          .k_dtype = DType::kF16,
          .v_dtype = DType::kF16,
          .k = piece.k,
          .k_stride_bytes = kv.k_width * kHalf,
          .v = piece.v,
          .v_stride_bytes = kv.v_width * kHalf,
          .k_width = kv.k_width,
          .v_width = kv.v_width,
          .num_positions = piece.end - piece.begin,
          .is_diagonal = false,
          .scale = args.scale,
          .scratch = nullptr,
          .out = nullptr,
          .logit_cap = args.logit_cap,
          .first_position = piece.window};
}

// Which positions a row sees are what it can see.
Status CheckSeen(const kernels::DecodeAttentionArgs& args, size_t token_idx,
                 size_t first, size_t num_pages) {
  const size_t count = args.counts[token_idx];
  if (count <= first || count > args.max_positions) {
    return Fail(ErrorCode::kCorrupt,
                "DecodeAttentionArgs: row {} sees positions {} to {} of {}",
                token_idx, first, count, args.max_positions);
  }
  const uint32_t* pages = args.page_table + token_idx * args.table_stride;
  for (size_t p = first / kernels::kDevicePage;
       p * kernels::kDevicePage < count; ++p) {
    if (pages[p] < num_pages) continue;
    return Fail(ErrorCode::kCorrupt,
                "DecodeAttentionArgs: row {} has page {} of {}", token_idx,
                pages[p], num_pages);
  }
  return {};
}

}  // namespace

size_t SimOps::NumPages(const kernels::DeviceKv& kv) const {
  const auto place = memory_.Find(kv.pages);
  return place.has_value() ? place->num_bytes / kv.page_bytes : 0;
}

Result<SimCounts> SimOps::Do(const kernels::KvAppendArgs& args) {
  const kernels::DeviceKv& kv = args.kv;
  const size_t num_places = NumPages(kv) * kernels::kDevicePage;
  for (size_t t = 0; t < args.num_tokens; ++t) {
    const size_t place = args.places[t];
    if (place >= num_places) {
      return Fail(ErrorCode::kCorrupt,
                  "KvAppendArgs: row {} has place {} of {}", t, place,
                  num_places);
    }
    std::byte* page = kv.pages + place / kernels::kDevicePage * kv.page_bytes;
    const size_t position = place % kernels::kDevicePage;
    for (size_t h = 0; h < kv.num_kv_heads; ++h) {
      const size_t row = t * kv.num_kv_heads + h;
      kernels_.store_row(DType::kF16, args.k + row * kv.k_width, kv.k_width,
                         page + KeysAt(kv, h) + position * kv.k_width * kHalf);
      kernels_.store_row(
          DType::kF16, args.v + row * kv.v_width, kv.v_width,
          page + ValuesAt(kv, h) + position * kv.v_width * kHalf);
    }
  }
  return SimCounts{};
}

void SimOps::AttendHeads(const kernels::DecodeAttentionArgs& args,
                         size_t token_idx, size_t kv_head, size_t first_head,
                         size_t num_heads) {
  const kernels::DeviceKv& kv = args.kv;
  const size_t first = args.first == nullptr ? 0 : args.first[token_idx];
  const size_t count = args.counts[token_idx];
  const size_t row = token_idx * args.num_heads + first_head;
  const size_t partial_floats = kernels::PartialAttentionFloats(kv.v_width);
  float* sums = sums_.Floats(num_heads * partial_floats);
  float* partials = partial_.Floats(num_heads * partial_floats);
  const size_t first_piece = first / kPiece * kPiece;
  for (size_t begin = first_piece; begin < count; begin += kPiece) {
    const Piece piece(args, token_idx, kv_head, begin);
    kernels::AttentionArgs attention = AttentionOf(args, piece, row, num_heads);
    attention.scratch = attention_.Floats(
        kernels::AttentionScratchFloats(kv.k_width, kv.v_width));
    attention.out = begin == first_piece ? sums : partials;
    kernels_.attention(attention);
    for (size_t h = 0; begin != first_piece && h < num_heads; ++h) {
      kernels_.merge_attention(partials + h * partial_floats, kv.v_width,
                               sums + h * partial_floats);
    }
  }
  for (size_t h = 0; h < num_heads; ++h) {
    kernels_.finish_attention(sums + h * partial_floats, kv.v_width,
                              args.out + (row + h) * kv.v_width);
  }
}

Result<SimCounts> SimOps::Do(const kernels::DecodeAttentionArgs& args) {
  SimCounts counts;
  const size_t num_pages = NumPages(args.kv);
  const size_t group = args.num_heads / args.kv.num_kv_heads;
  for (size_t t = 0; t < args.num_tokens; ++t) {
    const size_t first = args.first == nullptr ? 0 : args.first[t];
    TC_RETURN_IF_ERROR(CheckSeen(args, t, first, num_pages));
    counts.positions += args.counts[t] - first;
    for (size_t kv_head = 0; kv_head < args.kv.num_kv_heads; ++kv_head) {
      for (size_t h = 0; h < group; h += kernels::kAttentionQueries) {
        AttendHeads(args, t, kv_head, kv_head * group + h,
                    std::min(group - h, kernels::kAttentionQueries));
      }
    }
  }
  return counts;
}

}  // namespace thermocline::device

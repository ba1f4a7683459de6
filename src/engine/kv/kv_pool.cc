#include "engine/kv/kv_pool.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "base/check.h"
#include "base/remedy.h"
#include "base/units.h"
#include "kernels/kv_group.h"
#include "tensor/blocks.h"
#include "tensor/codec.h"
#include "tensor/float16.h"

namespace thermocline::engine {
namespace {

constexpr size_t kBlockElems = kBlock;

// Element i of a key or value in a group, whose bytes lie at `place`.
uint16_t FromGroup(const std::byte* group, size_t block, size_t position,
                   int quant) {
  uint16_t scale;
  std::memcpy(&scale, group + kernels::ScaleInGroup(block, position),
              sizeof(scale));
  return F32ToF16(F16ToF32(scale) * static_cast<float>(quant));
}

void KeyFromGroup(const std::byte* group, size_t position, size_t n,
                  uint16_t* out) {
  const size_t num_blocks = n / kBlockElems;
  for (size_t i = 0; i < n; ++i) {
    const size_t block = i / kBlockElems;
    const auto code = static_cast<uint8_t>(group[kernels::KeyInGroup(
        num_blocks, block, position, i % kBlockElems)]);
    out[i] = FromGroup(group, block, position, int{code} - 128);
  }
}

void ValueFromGroup(const std::byte* group, size_t position, size_t n,
                    uint16_t* out) {
  const size_t num_blocks = n / kBlockElems;
  for (size_t i = 0; i < n; ++i) {
    const size_t block = i / kBlockElems;
    const auto code = static_cast<int8_t>(group[kernels::ValueInGroup(
        num_blocks, block, position, i % kBlockElems)]);
    out[i] = FromGroup(group, block, position, code);
  }
}

// Of all sequences, so that no two are ever the same.
uint64_t NewHistory() {
  static std::atomic<uint64_t> num_histories = 0;
  return ++num_histories;
}

void FromRow(DType dtype, const std::byte* row, size_t n, uint16_t* out) {
  if (dtype == DType::kF16) {
    std::memcpy(out, row, n * sizeof(uint16_t));
    return;
  }
  std::array<float, kBlockElems> floats;
  for (size_t i = 0; i < n; i += kBlockElems) {
    const size_t count = std::min(kBlockElems, n - i);
    DequantizeRow(dtype, row, std::span(floats).first(count));
    for (size_t j = 0; j < count; ++j) out[i + j] = F32ToF16(floats[j]);
    row += BytesOf(dtype, count);
  }
}

}  // namespace

Result<std::unique_ptr<KvPool>> KvPool::Create(const KvLayout& layout,
                                               uint64_t num_pages) {
  TC_ASSIGN_OR_RETURN(const uint64_t num_bytes, KvBytes(layout, num_pages));
  if (num_pages > UINT32_MAX) {
    return Fail(ErrorCode::kResourceExhausted,
                "a KV cache has at most {} pages", UINT32_MAX);
  }
  auto buffer = os::AlignedBuffer::Allocate(num_bytes);
  if (!buffer.has_value()) {
    return Annotate(fmt::format("KV cache of {}", Plural(num_pages, "page")),
                    buffer.error());
  }
  return std::unique_ptr<KvPool>(
      new KvPool(layout, *std::move(buffer), num_pages));
}

KvPool::KvPool(const KvLayout& layout, os::AlignedBuffer buffer,
               size_t num_pages)
    : layout_(layout),
      buffer_(std::move(buffer)),
      num_references_(num_pages),
      mirrored_(num_pages) {
  free_.reserve(num_pages);
  // Taken from the back: the first page first.
  for (size_t i = num_pages; i-- > 0;) {
    free_.push_back(static_cast<uint32_t>(i));
  }
}

size_t KvPool::num_free() const {
  const std::lock_guard lock(mutex_);
  return free_.size();
}

std::optional<uint32_t> KvPool::Take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return std::nullopt;
  const uint32_t page_idx = free_.back();
  free_.pop_back();
  num_references_[page_idx] = 1;
  mirrored_[page_idx] = 0;
  return page_idx;
}

void KvPool::AddReference(uint32_t page_idx) {
  const std::lock_guard lock(mutex_);
  TC_CHECK(num_references_[page_idx] > 0);
  ++num_references_[page_idx];
}

void KvPool::Drop(uint32_t page_idx) {
  const std::lock_guard lock(mutex_);
  TC_CHECK(num_references_[page_idx] > 0);
  if (--num_references_[page_idx] == 0) free_.push_back(page_idx);
}

bool KvPool::IsShared(uint32_t page_idx) const {
  const std::lock_guard lock(mutex_);
  return num_references_[page_idx] > 1;
}

void KvPool::LimitMirrored(uint32_t page_idx, size_t num_positions) {
  if (mirrored(page_idx) > num_positions) SetMirrored(page_idx, num_positions);
}

void KvPool::StartMirror(const void* mirror) {
  for (std::atomic<uint8_t>& count : mirrored_) count = 0;
  mirror_ = mirror;
}

KvSequence::KvSequence(KvPool* pool, int64_t context)
    : pool_(pool), context_(context), history_(NewHistory()) {
  // More can never be had.
  pages_.reserve(std::min<size_t>(KvPagesFor(context), pool->num_pages()));
}

KvSequence::KvSequence(KvSequence&& other) noexcept
    : pool_(other.pool_),
      context_(other.context_),
      length_(std::exchange(other.length_, 0)),
      history_(std::exchange(other.history_, NewHistory())),
      pages_(std::exchange(other.pages_, {})) {}

KvSequence& KvSequence::operator=(KvSequence&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(context_, other.context_);
  std::swap(length_, other.length_);
  std::swap(history_, other.history_);
  std::swap(pages_, other.pages_);
  return *this;
}

bool KvSequence::WritesIntoSharedPage() const {
  return length_ % kKvPage != 0 &&
         pool_->IsShared(pages_[static_cast<size_t>(length_ / kKvPage)]);
}

Status KvSequence::Reserve(int64_t num_new) {
  if (num_new > context_ - length_) {
    return Fail(ErrorCode::kResourceExhausted, Advice{Remedy::kLargerContext},
                "no room for {}: the context has {} of {} left",
                Plural(num_new, "token"), context_ - length_,
                Plural(context_, "position"));
  }
  const size_t num_before = pages_.size();
  const auto give_up = [&] {
    Release(num_before);
    return Fail(ErrorCode::kResourceExhausted,
                "no room for {}: all {} of the KV cache are in use",
                Plural(num_new, "token"), Plural(pool_->num_pages(), "page"));
  };
  std::optional<uint32_t> copy;
  if (num_new > 0 && WritesIntoSharedPage()) {
    copy = pool_->Take();
    if (!copy) return give_up();
  }
  while (pages_.size() < KvPagesFor(length_ + num_new)) {
    const std::optional<uint32_t> page = pool_->Take();
    if (!page) {
      if (copy) pool_->Drop(*copy);
      return give_up();
    }
    pages_.push_back(*page);
  }
  if (copy) {
    uint32_t& last = pages_[static_cast<size_t>(length_ / kKvPage)];
    std::memcpy(pool_->page(*copy), pool_->page(last), layout().page_bytes);
    pool_->Drop(std::exchange(last, *copy));
  }
  if (num_new > 0) LimitMirrored();
  return {};
}

void KvSequence::LimitMirrored() {
  auto num_kept = static_cast<size_t>(length_ % kKvPage);
  for (auto i = static_cast<size_t>(length_ / kKvPage); i < pages_.size();
       ++i) {
    pool_->LimitMirrored(pages_[i], std::exchange(num_kept, 0));
  }
}

void KvSequence::Advance(int64_t num_new) {
  TC_CHECK(num_new >= 0 && KvPagesFor(length_ + num_new) <= pages_.size());
  length_ += num_new;
}

void KvSequence::Truncate(int64_t length) {
  TC_CHECK(length >= 0 && length <= length_);
  if (length < length_) history_ = NewHistory();
  length_ = length;
  Release(KvPagesFor(length));
}

KvSequence KvSequence::Fork(int64_t length) const {
  TC_CHECK(length >= 0 && length <= length_);
  KvSequence fork(pool_, context_);
  fork.length_ = length;
  for (size_t i = 0; i < KvPagesFor(length); ++i) {
    pool_->AddReference(pages_[i]);
    fork.pages_.push_back(pages_[i]);
  }
  return fork;
}

void KvSequence::Release(size_t num_kept) {
  while (pages_.size() > num_kept) {
    pool_->Drop(pages_.back());
    pages_.pop_back();
  }
}

void KvSequence::Put(const kernels::KernelTable& kernels, size_t layer_idx,
                     int64_t position, const float* k, const float* v) {
  const KvLayout& layout = this->layout();
  const KvLayerLayout& layer = layout.layer(layer_idx);
  std::byte* page = this->page(static_cast<size_t>(position / kKvPage));
  const auto place = static_cast<size_t>(position % kKvPage);
  for (size_t head = 0; head < layer.num_kv_heads; ++head) {
    std::byte* keys = page + layer.k_offset(head);
    std::byte* values = page + layer.v_offset(head);
    if (layout.order == kernels::KvOrder::kGroups) {
      kernels::StoreKeyInGroup(kernels, k, layer.k_width, place, keys);
      kernels::StoreValueInGroup(kernels, v, layer.v_width, place, values);
    } else {
      kernels.store_row(layout.k_type, k, layer.k_width,
                        keys + place * layer.k_head_bytes);
      kernels.store_row(layout.v_type, v, layer.v_width,
                        values + place * layer.v_head_bytes);
    }
    k += layer.k_width;
    v += layer.v_width;
  }
}

void KvSequence::PutRows(const kernels::KernelTable& kernels, size_t layer_idx,
                         int64_t first, int64_t count, const uint16_t* k,
                         const uint16_t* v) {
  const KvLayerLayout& layer = layout().layer(layer_idx);
  const size_t k_width = layer.num_kv_heads * layer.k_width;
  const size_t v_width = layer.num_kv_heads * layer.v_width;
  const bool is_copy = layout().order == kernels::KvOrder::kRows &&
                       layout().k_type == DType::kF16 &&
                       layout().v_type == DType::kF16;
  std::vector<float> floats(is_copy ? 0 : k_width + v_width);
  for (int64_t position = first; position < first + count; ++position) {
    if (is_copy) {
      CopyRow(layer, position, k, v);
    } else {
      const std::span<float> keys = std::span(floats).first(k_width);
      const std::span<float> values = std::span(floats).subspan(k_width);
      DequantizeRow(DType::kF16, reinterpret_cast<const std::byte*>(k), keys);
      DequantizeRow(DType::kF16, reinterpret_cast<const std::byte*>(v), values);
      Put(kernels, layer_idx, position, keys.data(), values.data());
    }
    k += k_width;
    v += v_width;
  }
}

void KvSequence::CopyRow(const KvLayerLayout& layer, int64_t position,
                         const uint16_t* k, const uint16_t* v) {
  std::byte* page = this->page(static_cast<size_t>(position / kKvPage));
  const auto place = static_cast<size_t>(position % kKvPage);
  for (size_t head = 0; head < layer.num_kv_heads; ++head) {
    std::memcpy(page + layer.k_offset(head) + place * layer.k_head_bytes,
                k + head * layer.k_width, layer.k_head_bytes);
    std::memcpy(page + layer.v_offset(head) + place * layer.v_head_bytes,
                v + head * layer.v_width, layer.v_head_bytes);
  }
}

void KvSequence::Get(size_t layer_idx, int64_t first, int64_t count,
                     uint16_t* k, uint16_t* v) const {
  const KvLayerLayout& layer = layout().layer(layer_idx);
  for (size_t head = 0; head < layer.num_kv_heads; ++head) {
    GetKeys(layer_idx, head, first, count, layer.num_kv_heads * layer.k_width,
            k + head * layer.k_width);
    GetValues(layer_idx, head, first, count, layer.num_kv_heads * layer.v_width,
              v + head * layer.v_width);
  }
}

void KvSequence::GetKeys(size_t layer_idx, size_t kv_head, int64_t first,
                         int64_t count, size_t stride, uint16_t* k) const {
  const KvLayerLayout& layer = layout().layer(layer_idx);
  for (int64_t position = first; position < first + count; ++position) {
    const std::byte* keys =
        this->keys(layer_idx, kv_head, static_cast<size_t>(position / kKvPage));
    const auto place = static_cast<size_t>(position % kKvPage);
    if (layout().order == kernels::KvOrder::kGroups) {
      KeyFromGroup(keys, place, layer.k_width, k);
    } else {
      FromRow(layout().k_type, keys + place * layer.k_head_bytes, layer.k_width,
              k);
    }
    k += stride;
  }
}

void KvSequence::GetValues(size_t layer_idx, size_t kv_head, int64_t first,
                           int64_t count, size_t stride, uint16_t* v) const {
  const KvLayerLayout& layer = layout().layer(layer_idx);
  for (int64_t position = first; position < first + count; ++position) {
    const std::byte* values = this->values(
        layer_idx, kv_head, static_cast<size_t>(position / kKvPage));
    const auto place = static_cast<size_t>(position % kKvPage);
    if (layout().order == kernels::KvOrder::kGroups) {
      ValueFromGroup(values, place, layer.v_width, v);
    } else {
      FromRow(layout().v_type, values + place * layer.v_head_bytes,
              layer.v_width, v);
    }
    v += stride;
  }
}

}  // namespace thermocline::engine

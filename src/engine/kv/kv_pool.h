// Keys and values of all sequences, in pages that they share.
#ifndef THERMOCLINE_ENGINE_KV_KV_POOL_H_
#define THERMOCLINE_ENGINE_KV_KV_POOL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/kv/kv_layout.h"
#include "os/memory.h"

namespace thermocline::engine {

// Owns the memory of a fixed number of pages, each counted by who refers to it.
// Knows of each page how many of its positions, from its first on, somebody
// else has a copy of: a device (kv/device_kv.h).
// Threads  any, all calls.
class KvPool {
 public:
  // kResourceExhausted: no memory.
  static Result<std::unique_ptr<KvPool>> Create(const KvLayout& layout,
                                                uint64_t num_pages);
  KvPool(const KvPool&) = delete;
  KvPool& operator=(const KvPool&) = delete;

  const KvLayout& layout() const { return layout_; }
  size_t num_pages() const { return num_references_.size(); }
  size_t num_free() const;
  std::byte* page(uint32_t page_idx) const {
    return buffer_.data() + page_idx * layout_.page_bytes;
  }

  // A page that nobody refers to, with one reference; nullopt: all are taken.
  std::optional<uint32_t> Take();
  void AddReference(uint32_t page_idx);
  void Drop(uint32_t page_idx);
  bool IsShared(uint32_t page_idx) const;

  // 0 when a page is taken; KvSequence lowers it before positions are written.
  // Set by whoever keeps the copies, `mirror`: for another one, and when it
  // starts, no page has a copy.
  size_t mirrored(uint32_t page_idx) const { return mirrored_[page_idx]; }
  void SetMirrored(uint32_t page_idx, size_t num_positions) {
    mirrored_[page_idx] = static_cast<uint8_t>(num_positions);
  }
  void LimitMirrored(uint32_t page_idx, size_t num_positions);
  const void* mirror() const { return mirror_; }
  void StartMirror(const void* mirror);

 private:
  KvPool(const KvLayout& layout, os::AlignedBuffer buffer, size_t num_pages);

  KvLayout layout_;
  os::AlignedBuffer buffer_;
  mutable std::mutex mutex_;  // of what follows
  std::vector<uint32_t> num_references_;
  std::vector<uint32_t> free_;
  // Of pages that others write at the same time: no lock for a pass over all.
  std::vector<std::atomic<uint8_t>> mirrored_;
  std::atomic<const void*> mirror_ = nullptr;
};
static_assert(kKvPage <= UINT8_MAX);

// The keys and values of one sequence. Owns references to pages of a pool,
// which outlives it. Move-only.
// Threads  one writer, which alone may call what is not const; Put and Get of
//          different positions from any thread.
class KvSequence {
 public:
  // For at most `context` positions.
  KvSequence(KvPool* pool, int64_t context);
  KvSequence(KvSequence&& other) noexcept;
  KvSequence& operator=(KvSequence&& other) noexcept;
  ~KvSequence() { Release(0); }

  int64_t length() const { return length_; }  // positions computed
  // Another number whenever a position may have been given up: who copied the
  // first n positions at some length has them still if it is the same.
  uint64_t history() const { return history_; }
  int64_t context() const { return context_; }
  const KvPool& pool() const { return *pool_; }
  KvPool& pool() { return *pool_; }
  const KvLayout& layout() const { return pool_->layout(); }

  // Makes room behind length(): pages that are missing are taken, a last page
  // that others refer to is copied. kResourceExhausted, and nothing changes:
  // beyond the context, or the pool has no pages left. Allocates nothing but
  // pages.
  Status Reserve(int64_t num_new);
  // What was reserved and written counts from now on.
  void Advance(int64_t num_new);
  // Forgets everything from `length` on, what was reserved too. Requires
  // length <= length(). (CHECKed)
  void Truncate(int64_t length);
  // A sequence of this one's first `length` positions: it refers to the same
  // pages until one of the two writes there. Requires length <= length().
  KvSequence Fork(int64_t length) const;

  // The only places that know how a position lies in a page. Put takes k
  // [KVH * K] and v [KVH * Kv] of the layer, rotated, of a position that is
  // reserved; Get
  // gives [count, KVH * K] and [count, KVH * Kv] in F16 (rounded, where the
  // cache holds more). PutRows is Put of what Get gives, of many positions.
  void Put(const kernels::KernelTable& kernels, size_t layer_idx,
           int64_t position, const float* k, const float* v);
  void PutRows(const kernels::KernelTable& kernels, size_t layer_idx,
               int64_t first, int64_t count, const uint16_t* k,
               const uint16_t* v);
  void Get(size_t layer_idx, int64_t first, int64_t count, uint16_t* k,
           uint16_t* v) const;
  // One head's alone: [count, K] and [count, Kv], rows so many elements apart.
  void GetKeys(size_t layer_idx, size_t kv_head, int64_t first, int64_t count,
               size_t stride, uint16_t* k) const;
  void GetValues(size_t layer_idx, size_t kv_head, int64_t first, int64_t count,
                 size_t stride, uint16_t* v) const;

  // Of page `page_idx` of the sequence, where attention reads a head's keys and
  // values.
  size_t num_pages() const { return pages_.size(); }
  uint32_t page_of_pool(size_t page_idx) const { return pages_[page_idx]; }
  const std::byte* keys(size_t layer_idx, size_t kv_head,
                        size_t page_idx) const {
    return page(page_idx) + layout().layer(layer_idx).k_offset(kv_head);
  }
  const std::byte* values(size_t layer_idx, size_t kv_head,
                          size_t page_idx) const {
    return page(page_idx) + layout().layer(layer_idx).v_offset(kv_head);
  }

 private:
  std::byte* page(size_t page_idx) const {
    return pool_->page(pages_[page_idx]);
  }
  bool WritesIntoSharedPage() const;
  // PutRows of a position whose bytes are those of the page.
  void CopyRow(const KvLayerLayout& layer, int64_t position, const uint16_t* k,
               const uint16_t* v);
  // Copies of what is about to be written, from length() on, do not count.
  void LimitMirrored();
  // Drops all pages but the first num_kept.
  void Release(size_t num_kept);

  KvPool* pool_;
  int64_t context_;
  int64_t length_ = 0;
  uint64_t history_;
  std::vector<uint32_t> pages_;  // with room for the context
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_KV_KV_POOL_H_

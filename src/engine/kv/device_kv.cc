#include "engine/kv/device_kv.h"

#include <algorithm>

#include "base/check.h"
#include "engine/device/weight_loader.h"

namespace thermocline::engine {
namespace {

constexpr size_t kPage = kernels::kDevicePage;
static_assert(kPage == kKvPage);  // page p here is page p there

// Where a layer lies in a page, behind what `page_bytes` counts; counts it.
kernels::DeviceKv PlaceInPage(const model::AttentionSpec& spec,
                              uint64_t& page_bytes) {
  const auto take = [&](size_t width) {
    const uint64_t place = page_bytes;
    page_bytes += spec.num_kv_heads * kPage * width * sizeof(uint16_t);
    return place;
  };
  kernels::DeviceKv layer;
  layer.k_offset = take(spec.key_width);
  layer.v_offset = take(spec.value_width);
  layer.num_kv_heads = static_cast<uint32_t>(spec.num_kv_heads);
  layer.k_width = static_cast<uint32_t>(spec.key_width);
  layer.v_width = static_cast<uint32_t>(spec.value_width);
  return layer;
}

// Copies what is packed piece by piece into a lane's pinned memory. Pieces that
// follow each other there and on the device go over together.
class PieceCopier {
 public:
  explicit PieceCopier(DeviceLane& lane) : lane_(lane) {}

  // Where the next piece, which goes to `to`, is packed. At most kStagingBytes.
  Result<std::byte*> Add(std::byte* to, size_t num_bytes) {
    if (num_packed_ + num_bytes > WeightLoader::kStagingBytes) {
      TC_RETURN_IF_ERROR(Finish());
    }
    if (to != to_ + (num_packed_ - first_)) {
      TC_RETURN_IF_ERROR(Send());
      to_ = to;
    }
    std::byte* const place = lane_.pinned_memory() + num_packed_;
    num_packed_ += num_bytes;
    return place;
  }

  // All is there.
  Status Finish() {
    if (num_packed_ == 0) return {};
    TC_RETURN_IF_ERROR(Send());
    TC_RETURN_IF_ERROR(lane_.device().Synchronize(lane_.stream()));
    num_packed_ = first_ = 0;
    to_ = nullptr;
    return {};
  }

 private:
  Status Send() {
    const size_t count = num_packed_ - first_;
    if (count == 0) return {};
    TC_RETURN_IF_ERROR(lane_.device().Copy(
        lane_.stream(), to_, lane_.pinned_memory() + first_, count));
    first_ = num_packed_;
    return {};
  }

  DeviceLane& lane_;
  std::byte* to_ = nullptr;  // of the piece at first_
  size_t first_ = 0;         // not sent yet
  size_t num_packed_ = 0;
};

// Of a layer's heads, the positions [first, end) of a sequence's page.
struct PageRows {
  const KvSequence* sequence;
  size_t page_idx;
  size_t first, end;
  std::byte* to;  // the page
};

// A page of which the device has nothing is copied with what is behind `end`:
// in few pieces.
Status CopyRows(const PageRows& rows, size_t layer_idx,
                const kernels::DeviceKv& place, PieceCopier& copier) {
  const size_t num_copied = (rows.first == 0 ? kPage : rows.end) - rows.first;
  const auto first = static_cast<int64_t>(rows.page_idx * kPage + rows.first);
  const auto count = static_cast<int64_t>(rows.end - rows.first);
  const auto add = [&](size_t offset, size_t head, size_t width) {
    const size_t row_bytes = width * sizeof(uint16_t);
    return copier.Add(
        rows.to + offset + (head * kPage + rows.first) * row_bytes,
        num_copied * row_bytes);
  };
  for (size_t head = 0; head < place.num_kv_heads; ++head) {
    TC_ASSIGN_OR_RETURN(std::byte* const keys,
                        add(place.k_offset, head, place.k_width));
    rows.sequence->GetKeys(layer_idx, head, first, count, place.k_width,
                           reinterpret_cast<uint16_t*>(keys));
  }
  for (size_t head = 0; head < place.num_kv_heads; ++head) {
    TC_ASSIGN_OR_RETURN(std::byte* const values,
                        add(place.v_offset, head, place.v_width));
    rows.sequence->GetValues(layer_idx, head, first, count, place.v_width,
                             reinterpret_cast<uint16_t*>(values));
  }
  return {};
}

}  // namespace

uint64_t DeviceKvBytes(const model::Config& config,
                       std::span<const size_t> layers, uint64_t num_pages) {
  uint64_t page_bytes = 0;
  for (const size_t layer_idx : layers) {
    PlaceInPage(config.layers[layer_idx].attention, page_bytes);
  }
  return num_pages * page_bytes;
}

LaneNeed DeviceKvNeed() {
  return {.pinned_bytes = WeightLoader::kStagingBytes};
}

Result<std::unique_ptr<DeviceKv>> DeviceKv::Make(const model::Config& config,
                                                 std::span<const size_t> layers,
                                                 uint64_t num_pages,
                                                 DeviceLane* lane) {
  std::unique_ptr<DeviceKv> kv(new DeviceKv(lane, num_pages));
  kv->layers_.assign(layers.begin(), layers.end());
  TC_ASSIGN_OR_RETURN(kv->memory_, lane->device().Allocate(
                                       DeviceKvBytes(config, layers, num_pages),
                                       device::MemoryKind::kDevice,
                                       "pages of keys and values"));
  kv->places_.resize(config.layers.size());
  uint64_t page_bytes = 0;
  for (const size_t layer_idx : layers) {
    kv->places_[layer_idx] =
        PlaceInPage(config.layers[layer_idx].attention, page_bytes);
  }
  for (const size_t layer_idx : layers) {
    kv->places_[layer_idx].pages = kv->memory_.data();
    kv->places_[layer_idx].page_bytes = page_bytes;
  }
  return kv;
}

Status DeviceKv::Sync(std::span<const SequenceRows> runs) {
  if (runs.empty()) return {};
  KvPool& pool = runs.front().sequence->pool();
  if (pool_ != &pool || pool.mirror() != this) {
    TC_CHECK(pool.num_pages() <= num_pages_);
    pool_ = &pool;
    pool.StartMirror(this);
  }
  Status status = CopyMissing(runs);
  if (status) return {};
  for (const SequenceRows& run : runs) {
    for (size_t i = 0; i < run.sequence->num_pages(); ++i) {
      pool.SetMirrored(run.sequence->page_of_pool(i), 0);
    }
  }
  return Annotate("keys and values on their way to the device", status.error());
}

// Counts them as there when they are packed: others that share a page do not
// copy it again.
Status DeviceKv::CopyMissing(std::span<const SequenceRows> runs) {
  PieceCopier copier(lane_);
  for (const SequenceRows& run : runs) {
    TC_CHECK(&run.sequence->pool() == pool_);
    const auto length = static_cast<size_t>(run.first_position);
    for (size_t i = 0; i * kPage < length; ++i) {
      const uint32_t page = run.sequence->page_of_pool(i);
      PageRows rows = {.sequence = run.sequence,
                       .page_idx = i,
                       .first = pool_->mirrored(page),
                       .end = std::min(kPage, length - i * kPage),
                       .to = nullptr};
      if (rows.first >= rows.end) continue;
      for (const size_t layer_idx : layers_) {
        const kernels::DeviceKv& place = places_[layer_idx];
        rows.to = place.pages + page * place.page_bytes;
        TC_RETURN_IF_ERROR(CopyRows(rows, layer_idx, place, copier));
      }
      pool_->SetMirrored(page, rows.end);
    }
  }
  return copier.Finish();
}

void DeviceKv::Commit(std::span<const SequenceRows> runs) {
  for (const SequenceRows& run : runs) {
    const auto first = static_cast<size_t>(run.first_position);
    const size_t end = first + run.num_rows;
    for (size_t i = first / kPage; i * kPage < end; ++i) {
      pool_->SetMirrored(run.sequence->page_of_pool(i),
                         std::min(kPage, end - i * kPage));
    }
  }
}

}  // namespace thermocline::engine

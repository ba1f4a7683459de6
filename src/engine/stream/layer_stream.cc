#include "engine/stream/layer_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/math.h"
#include "base/units.h"
#include "compute/stage_times.h"
#include "engine/stream/stream_files.h"
#include "model/tensor_roles.h"

namespace thermocline::engine {
namespace {

// Fewer read a part of what they could at once, so that one is computed while
// the other is on its way.
constexpr size_t kLeastRing = 2;
// Large enough that their number does not matter, small enough that several are
// on their way in any layer.
constexpr size_t kLayerReadBytes = size_t{1} << 20;
// The kernel gets all that a ring can have open, so that nobody has to move the
// reader on while a layer is computed; larger ones have larger reads.
constexpr size_t kMostLayerReads = 512;

using LayerMatrices = std::vector<const gguf::TensorInfo*>;

bool IsOfBlock(const model::TensorRole& role) {
  using enum model::TensorUse;
  if (role.form != model::TensorForm::kMatrix) return false;
  switch (role.use) {
    case kAttentionQ:
    case kAttentionK:
    case kAttentionV:
    case kAttentionQkv:
    case kAttentionOut:
    case kFfnGate:
    case kFfnUp:
    case kFfnDown:
    case kFfnDownT:
      return true;
    default:
      return false;
  }
}

// [L]
std::vector<LayerMatrices> BlocksOf(const gguf::File& file,
                                    const model::Config& config) {
  constexpr std::string_view kPrefix = "blk.";
  std::vector<LayerMatrices> layers(config.layers.size());
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    std::string_view rest = tensor.name;
    if (!rest.starts_with(kPrefix)) continue;
    rest.remove_prefix(kPrefix.size());
    size_t layer_idx = 0;
    const auto [end, error] =
        std::from_chars(rest.data(), rest.data() + rest.size(), layer_idx);
    if (error != std::errc() || layer_idx >= layers.size()) continue;
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    if (!rest.starts_with('.')) continue;
    const model::TensorRole* role = model::FindRole(rest.substr(1));
    if (role == nullptr || !IsOfBlock(*role)) continue;
    layers[layer_idx].push_back(&tensor);
  }
  return layers;
}

BlockLayout LayMatrices(const LayerMatrices& matrices,
                        std::span<const uint64_t> file_bytes) {
  std::vector<gguf::FileSpan> spans;
  for (const gguf::TensorInfo* tensor : matrices) {
    spans.push_back(tensor->span());
  }
  return LayBlock(spans, file_bytes);
}

// Whatever the files' sizes are: they do not change a slot's.
size_t SlotBytesOf(const gguf::File& file, const LayerMatrices& matrices) {
  const std::vector<uint64_t> file_bytes(static_cast<size_t>(file.num_shards()),
                                         std::numeric_limits<uint64_t>::max());
  return LayMatrices(matrices, file_bytes).num_bytes;
}

uint64_t BytesOfMatrices(const LayerMatrices& matrices) {
  uint64_t sum = 0;
  for (const gguf::TensorInfo* tensor : matrices) sum += tensor->num_bytes;
  return sum;
}

// Whether a layer is one of `count` that are spread evenly over all.
bool IsSpreadTo(size_t layer_idx, size_t count, size_t num_layers) {
  return (layer_idx + 1) * count / num_layers > layer_idx * count / num_layers;
}

std::byte* FirstSlotIn(const os::AlignedBuffer& memory) {
  const auto address = reinterpret_cast<uintptr_t>(memory.data());
  return memory.data() + (-address & (kBlockAlignment - 1));
}

// How many layers stay, so that the rest and two slots fit, or else take least.
size_t CountLeft(std::span<const uint64_t> num_bytes,
                 std::span<const size_t> slot_bytes, uint64_t fixed_bytes,
                 uint64_t room) {
  const size_t num_layers = num_bytes.size();
  size_t best = 0;
  uint64_t least = std::numeric_limits<uint64_t>::max();
  for (size_t count = 1; count <= num_layers; ++count) {
    uint64_t need = fixed_bytes;
    size_t largest = 0;
    for (size_t i = 0; i < num_layers; ++i) {
      if (IsSpreadTo(i, count, num_layers)) {
        largest = std::max(largest, slot_bytes[i]);
      } else {
        need += num_bytes[i];
      }
    }
    need += std::min(count, kLeastRing) * largest;
    if (need <= room) return count;
    if (need < least) {
      least = need;
      best = count;
    }
  }
  return best;
}

}  // namespace

std::vector<std::string> LayerTensors(const gguf::File& file,
                                      const model::Config& config,
                                      uint64_t room) {
  const std::vector<LayerMatrices> layers = BlocksOf(file, config);
  std::vector<uint64_t> num_bytes;
  std::vector<size_t> slot_bytes;
  uint64_t fixed_bytes = 0;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    fixed_bytes += tensor.num_bytes;
  }
  for (const LayerMatrices& matrices : layers) {
    num_bytes.push_back(BytesOfMatrices(matrices));
    slot_bytes.push_back(SlotBytesOf(file, matrices));
    fixed_bytes -= num_bytes.back();
  }
  const size_t count = CountLeft(num_bytes, slot_bytes, fixed_bytes, room);
  std::vector<std::string> names;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (!IsSpreadTo(i, count, layers.size())) continue;
    for (const gguf::TensorInfo* tensor : layers[i]) {
      names.push_back(tensor->name);
    }
  }
  return names;
}

LeftWeights LeftLayers(const gguf::File& file, const model::Config& config,
                       std::span<const std::string> names) {
  LeftWeights left = {.unit = StreamUnit::kLayers};
  for (const LayerMatrices& matrices : BlocksOf(file, config)) {
    const bool is_left = std::ranges::any_of(matrices, [&](const auto* tensor) {
      return std::ranges::find(names, tensor->name) != names.end();
    });
    if (!is_left) continue;
    ++left.num_layers;
    left.block_bytes = std::max(left.block_bytes, SlotBytesOf(file, matrices));
  }
  return left;
}

BlockPlan PlanLayerSlots(const LeftWeights& left, uint64_t room) {
  const uint64_t fitting = room / std::max<uint64_t>(left.block_bytes, 1);
  const uint64_t least = std::min<uint64_t>(kLeastRing, left.num_layers);
  return {.slot_bytes = left.block_bytes,
          .pass_slots = static_cast<uint32_t>(std::clamp(
              fitting, least, std::max<uint64_t>(left.num_layers, least)))};
}

Result<std::unique_ptr<LayerStream>> LayerStream::Create(
    const model::Model& model, const StreamOptions& options) {
  const gguf::File& file = model.file();
  // Small buffers are aligned to less than slots are.
  auto memory = os::AlignedBuffer::Allocate(options.blocks.num_bytes() +
                                            kBlockAlignment - 64);
  if (!memory) return Annotate("slots of layers", memory.error());
  TC_ASSIGN_OR_RETURN(auto reader, OpenStreamFiles(file, options,
                                                   {FirstSlotIn(*memory),
                                                    options.blocks.num_bytes()},
                                                   {.depth = kMostLayerReads}));
  const std::vector<uint64_t> file_bytes = ShardBytes(file, *reader);
  std::vector<LeftLayer> left;
  const std::vector<LayerMatrices> layers = BlocksOf(file, model.config());
  for (size_t i = 0; i < layers.size(); ++i) {
    LayerMatrices matrices = layers[i];
    std::erase_if(matrices, [](const gguf::TensorInfo* tensor) {
      return tensor->data != nullptr;
    });
    if (matrices.empty()) continue;
    BlockLayout layout = LayMatrices(matrices, file_bytes);
    TC_CHECK(layout.num_bytes <= options.blocks.slot_bytes);
    left.push_back({.layer_idx = i,
                    .layout = std::move(layout),
                    .tensors = std::move(matrices)});
  }
  TC_CHECK(!left.empty() && options.blocks.pass_slots > 0);
  std::unique_ptr<LayerStream> stream(new LayerStream(
      options.blocks, *std::move(memory), std::move(left), std::move(reader)));
  TC_RETURN_IF_ERROR(stream->Place(model));
  return stream;
}

LayerStream::LayerStream(const BlockPlan& plan, os::AlignedBuffer memory,
                         std::vector<LeftLayer> left,
                         std::unique_ptr<storage::BlockReader> reader)
    : plan_(plan),
      memory_(std::move(memory)),
      left_(std::move(left)),
      slots_(plan.pass_slots),
      queue_(std::move(reader)) {
  std::byte* const base = FirstSlotIn(memory_);
  for (size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].data = base + i * plan_.slot_bytes;
  }
  TC_CHECK(queue_.Add(this) == 0);
  piece_bytes_ =
      std::max(kLayerReadBytes,
               RoundUp(static_cast<size_t>(plan_.num_bytes() / kMostLayerReads),
                       kBlockAlignment));
  size_t most_pieces = 0;
  for (const LeftLayer& layer : left_) {
    size_t num_pieces = 0;
    for (const BlockRead& read : layer.layout.reads) {
      num_pieces += CeilDiv(read.num_bytes, piece_bytes_);
    }
    most_pieces = std::max(most_pieces, num_pieces);
  }
  most_pieces_ = static_cast<uint32_t>(std::max<size_t>(most_pieces, 1));
  reads_.reserve(most_pieces_);
}

Status LayerStream::Place(const model::Model& model) {
  std::unordered_map<std::string_view, const std::byte*> addresses;
  places_.assign(model.config().layers.size(), kNobody);
  for (size_t k = 0; k < left_.size(); ++k) {
    const LeftLayer& layer = left_[k];
    places_[layer.layer_idx] = k;
    for (size_t i = 0; i < layer.tensors.size(); ++i) {
      addresses[layer.tensors[i]->name] =
          SlotOf(k).data + layer.layout.span_offsets[i];
    }
  }
  for (const LayerMatrices& matrices : BlocksOf(model.file(), model.config())) {
    for (const gguf::TensorInfo* tensor : matrices) {
      if (tensor->data != nullptr) resident_bytes_ += tensor->num_bytes;
    }
  }
  TC_ASSIGN_OR_RETURN(
      model_, model.PlacedAt([&](const gguf::TensorInfo& tensor) {
        const auto found = addresses.find(tensor.name);
        return found == addresses.end() ? nullptr : found->second;
      }));
  return {};
}

Status LayerStream::Await(size_t layer_idx, const compute::Compute& compute) {
  if (!is_in_pass_) {
    is_in_pass_ = true;
    BeginPass();
  }
  ++counts_.num_wanted;
  const size_t k = places_[layer_idx];
  if (k == kNobody) return {};
  RingSlot& slot = SlotOf(k);
  TC_CHECK(slot.holds == k);
  {
    const compute::ScopedStage stage(compute, compute::Stage::kRead);
    Settle(slot);
  }
  if (slot.error) {
    slot.holds = kNobody;
    const uint32_t shard_idx = left_[k].layout.reads.front().shard_idx;
    return Fail(ErrorCode::kIo, "{}: layer {} cannot be read: {}",
                model_->file().shard_path(shard_idx), layer_idx,
                slot.error->message);
  }
  if (!std::exchange(slot.is_counted, true)) {
    ++counts_.num_missed;
    counts_.num_bytes += left_[k].layout.read_bytes();
    counts_.num_reads += slot.num_reads;
  }
  return {};
}

void LayerStream::Leave(size_t layer_idx) {
  const size_t k = places_[layer_idx];
  if (k == kNobody) return;
  const size_t after = k + slots_.size();
  const size_t next = after < left_.size() ? after : k % slots_.size();
  if (next != k) Start(next);
}

void LayerStream::BeginPass() {
  for (size_t k = 0; k < slots_.size() && k < left_.size(); ++k) {
    if (slots_[k].holds == k) continue;
    // What a pass that failed or was cancelled had on its way there.
    Settle(slots_[k]);
    Start(k);
  }
}

void LayerStream::Start(size_t left_idx) {
  RingSlot& slot = SlotOf(left_idx);
  TC_CHECK(slot.num_reading == 0);
  const auto slot_idx = static_cast<uint32_t>(&slot - slots_.data());
  reads_.clear();
  slot.num_reading =
      AppendReads(left_[left_idx].layout, slot.data, piece_bytes_,
                  ReadQueue::TagOf(0, slot_idx * most_pieces_), reads_);
  slot.num_reads = slot.num_reading;
  slot.holds = left_idx;
  slot.is_counted = false;
  slot.error.reset();
  queue_.Submit(reads_);
}

void LayerStream::OnRead(uint32_t number, const Status& status) {
  RingSlot& slot = slots_[number / most_pieces_];
  --slot.num_reading;
  if (!status && !slot.error) slot.error = status.error();
}

void LayerStream::Settle(RingSlot& slot) {
  queue_.WaitUntil([&] { return slot.num_reading == 0; });
}

std::string LayerStream::Describe() const {
  return fmt::format(
      "layers {} of {} in {} and {} of {}", places_.size() - left_.size(),
      places_.size(), FormatBytes(resident_bytes_),
      Plural(slots_.size(), "slot"), FormatBytes(plan_.slot_bytes));
}

}  // namespace thermocline::engine

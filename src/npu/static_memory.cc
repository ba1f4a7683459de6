#include "npu/static_memory.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/math.h"
#include "npu/graph.h"

namespace thermocline::npu {
namespace {

constexpr uint64_t kTooMuch = std::numeric_limits<uint64_t>::max();

// Lays arrays one behind the other; without a base it only counts.
class ArrayLayout {
 public:
  explicit ArrayLayout(std::byte* base) : base_(base) {}

  template <typename T>
  T* Take(size_t rows, size_t width) {
    const uint64_t offset = num_bytes_;
    const auto num_elems = CheckedMul(rows, width);
    const auto bytes =
        num_elems ? CheckedMul(*num_elems, sizeof(T)) : std::nullopt;
    const auto end = bytes ? CheckedAdd(num_bytes_, *bytes) : std::nullopt;
    if (!end || *end > kTooMuch - Graph::kAlignment) {
      num_bytes_ = kTooMuch - Graph::kAlignment;
    } else {
      num_bytes_ = RoundUp(*end, uint64_t{Graph::kAlignment});
    }
    return base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + offset);
  }
  uint64_t num_bytes() const { return num_bytes_; }

 private:
  std::byte* base_;
  uint64_t num_bytes_ = 0;
};

size_t LayersPerStep(const model::Config& config,
                     const StaticOptions& options) {
  if (options.weights_are_inputs) return 1;
  return options.layers_per_program == 0
             ? config.layers.size()
             : std::min(options.layers_per_program, config.layers.size());
}

// The widest of all layers: a step has any of them.
KvWidths WidestOf(const model::Config& config) {
  KvWidths widest;
  for (size_t i = 0; i < config.layers.size(); ++i) {
    const KvWidths widths = KvWidthsOf(config, i);
    widest = {.k = std::max(widest.k, widths.k),
              .v = std::max(widest.v, widths.v)};
  }
  return widest;
}

size_t RopePairs(const model::Config& config) {
  size_t num_pairs = 0;
  for (const model::RopeConfig& rope : config.ropes) {
    num_pairs = std::max(num_pairs, rope.width / 2);
  }
  return num_pairs;
}

StaticActivations Lay(const model::Config& config, const StaticOptions& options,
                      ArrayLayout& layer) {
  StaticActivations all;
  const auto rows = static_cast<size_t>(options.rows.back());
  all.x = layer.Take<float>(rows, config.width);
  all.y = layer.Take<float>(rows, config.width);
  all.mask =
      layer.Take<float>(rows, static_cast<size_t>(options.contexts.back()));
  const size_t num_pairs = RopePairs(config);
  all.rope_cos = layer.Take<float>(rows, num_pairs);
  all.rope_sin = layer.Take<float>(rows, num_pairs);
  const KvWidths widths = WidestOf(config);
  const size_t num_layers = LayersPerStep(config, options);
  for (size_t i = 0; i < num_layers; ++i) {
    uint16_t* k = layer.Take<uint16_t>(rows, widths.k);
    all.new_kv.emplace_back(k, layer.Take<uint16_t>(rows, widths.v));
  }
  all.key_rows = layer.Take<uint16_t>(rows, widths.k);
  if (options.shows_opened) {
    all.opened = layer.Take<uint16_t>(rows, model::MaxFfnWidth(config));
  }
  if (options.has_head) {
    all.logits = layer.Take<float>(static_cast<size_t>(options.rows.front()),
                                   config.vocab_size);
  }
  return all;
}

}  // namespace

uint64_t StaticMemory::NumBytes(const model::Config& config,
                                const StaticOptions& options) {
  ArrayLayout counter(nullptr);
  Lay(config, options, counter);
  return counter.num_bytes();
}

Result<StaticMemory> StaticMemory::Create(const model::Config& config,
                                          const StaticOptions& options) {
  auto buffer = os::AlignedBuffer::Allocate(NumBytes(config, options));
  if (!buffer) return Annotate("activations of graphs", buffer.error());
  StaticMemory memory;
  memory.buffer_ = *std::move(buffer);
  ArrayLayout layer(memory.buffer_.data());
  memory.activations_ = Lay(config, options, layer);
  return memory;
}

void TakeRows(const StreamRows& x, size_t first, size_t count, size_t width,
              float* to) {
  for (size_t row = 0; row < count; ++row) {
    std::copy_n(x.data + (first + row) * x.stride, width, to + row * width);
  }
}

void GiveRows(const float* from, size_t first, size_t count, size_t width,
              const StreamRows& x) {
  for (size_t row = 0; row < count; ++row) {
    std::copy_n(from + row * width, width, x.data + (first + row) * x.stride);
  }
}

void PadRows(size_t count, size_t rows, size_t width, float* x) {
  for (size_t row = count; row < rows; ++row) {
    std::copy_n(x + (count - 1) * width, width, x + row * width);
  }
}

std::byte* PlaceOfShared(const StaticActivations& of, std::string_view name) {
  const std::pair<std::string_view, float*> shared[] = {
      {"x", of.x},
      {"y", of.y},
      {"mask", of.mask},
      {"rope_cos", of.rope_cos},
      {"rope_sin", of.rope_sin}};
  for (const auto& [shared_name, place] : shared) {
    if (name == shared_name) return reinterpret_cast<std::byte*>(place);
  }
  if (name == "opened") return reinterpret_cast<std::byte*>(of.opened);
  return nullptr;
}

std::optional<size_t> LayerOf(std::string_view name, std::string_view what) {
  if (!name.starts_with(what) || name.size() == what.size()) {
    return std::nullopt;
  }
  name.remove_prefix(what.size());
  if (!name.starts_with('_')) return std::nullopt;
  name.remove_prefix(1);
  size_t layer_idx = 0;
  const char* last = name.data() + name.size();
  const auto [end, error] = std::from_chars(name.data(), last, layer_idx);
  if (error != std::errc() || end != last) return std::nullopt;
  return layer_idx;
}

}  // namespace thermocline::npu

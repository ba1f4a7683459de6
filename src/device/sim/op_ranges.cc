#include "device/sim/op_check.h"

#include <algorithm>
#include <variant>

#include "base/check.h"
#include "device/sim/sim_layout.h"

namespace thermocline::device {
namespace {

using kernels::DeviceSetWords;

constexpr size_t kFloat = sizeof(float);
constexpr size_t kWord = sizeof(uint32_t);

class RangeFinder {
 public:
  explicit RangeFinder(const SimCounts& counts) : counts_(counts) {}

  void operator()(const kernels::NormArgs& a) {
    const size_t bytes = size_t{a.num_rows} * a.n * kFloat;
    Reads("x", a.x, bytes);
    Reads("weight", a.weight, a.n * kFloat);
    if (a.bias != nullptr) Reads("bias", a.bias, a.n * kFloat);
    Writes("out", a.out, bytes);
  }

  void operator()(const kernels::GemvArgs& a) {
    const size_t out_bytes = Rows(a.num_tokens, a.weights.num_rows);
    Matrix("weights", a.weights);
    if (a.bias != nullptr) {
      Reads("bias", a.bias, a.weights.num_rows * kFloat);
    }
    Reads("x", a.x, Rows(a.num_tokens, a.weights.n));
    ranges_.Add("out", a.out, out_bytes, a.adds ? out_bytes : 0, out_bytes);
    if (!IsFloat(a.weights.dtype)) {
      Scratch("scratch", a.scratch,
              kernels::QuantizedRowsBytes(a.weights.n, a.num_tokens));
    }
  }

  void operator()(const kernels::RopeArgs& a) {
    const size_t angles = Rows(a.num_tokens, a.num_pairs);
    Reads("cos", a.cos, angles);
    Reads("sin", a.sin, angles);
    const size_t bytes = Rows(a.num_tokens, size_t{a.num_heads} * a.head_width);
    ranges_.Add("heads", a.heads, bytes, bytes, bytes);
  }

  void operator()(const kernels::KvAppendArgs& a) {
    const size_t k_elems = size_t{a.kv.num_kv_heads} * a.kv.k_width;
    const size_t v_elems = size_t{a.kv.num_kv_heads} * a.kv.v_width;
    Reads("places", a.places, a.num_tokens * kWord);
    Reads("k", a.k, Rows(a.num_tokens, k_elems));
    Reads("v", a.v, Rows(a.num_tokens, v_elems));
    ranges_.Add("kv", a.kv.pages, a.kv.page_bytes, 0,
                a.num_tokens * (k_elems + v_elems) * sizeof(uint16_t));
  }

  void operator()(const kernels::DecodeAttentionArgs& a) {
    const size_t width = size_t{a.kv.k_width} + a.kv.v_width;
    Reads("q", a.q, Rows(a.num_tokens, size_t{a.num_heads} * a.kv.k_width));
    const size_t num_pages =
        (size_t{a.max_positions} + kernels::kDevicePage - 1) /
        kernels::kDevicePage;
    ranges_.Add(
        "page_table", a.page_table,
        ((a.num_tokens - size_t{1}) * a.table_stride + num_pages) * kWord,
        a.num_tokens * num_pages * kWord, 0);
    Reads("counts", a.counts, a.num_tokens * kWord);
    if (a.first != nullptr) Reads("first", a.first, a.num_tokens * kWord);
    ranges_.Add(
        "kv", a.kv.pages, a.kv.page_bytes,
        counts_.positions * a.kv.num_kv_heads * width * sizeof(uint16_t), 0);
    Writes("out", a.out,
           Rows(a.num_tokens, size_t{a.num_heads} * a.kv.v_width));
    Scratch("partials", a.partials,
            kernels::DecodePartialFloats(a.num_tokens, a.num_heads,
                                         a.kv.v_width, a.max_positions) *
                kFloat);
  }

  void operator()(const kernels::ActivateArgs& a) {
    if (a.gate != nullptr) Reads("gate", a.gate, a.count * kFloat);
    Reads("up", a.up, a.count * kFloat);
    Writes("out", a.out, a.count * kFloat);
  }

  void operator()(const kernels::AddRowsScaledArgs& a) {
    const size_t bytes = Rows(a.num_tokens, a.n);
    Reads("x", a.x, bytes);
    if (a.factors != nullptr)
      Reads("factors", a.factors, a.num_tokens * kFloat);
    ranges_.Add("out", a.out, bytes, bytes, bytes);
  }

  void operator()(const kernels::PredictArgs& a) {
    Matrix("up", a.up);
    Matrix("down", a.down);
    if (a.up_bias != nullptr) {
      Reads("up_bias", a.up_bias, a.up.num_rows * kFloat);
    }
    if (a.down_bias != nullptr) {
      Reads("down_bias", a.down_bias, a.down.num_rows * kFloat);
    }
    Reads("x", a.x, Rows(a.num_tokens, a.up.n));
    Scratch("hidden", a.hidden, Rows(a.num_tokens, a.up.num_rows));
    if (!IsFloat(a.up.dtype) || !IsFloat(a.down.dtype)) {
      Scratch("scratch", a.scratch,
              kernels::QuantizedRowsBytes(std::max(a.up.n, a.down.n),
                                          a.num_tokens));
    }
    Writes("sets", a.sets, Sets(a.num_tokens, a.down.num_rows));
  }

  void operator()(const kernels::SparseFfnArgs& a) {
    const uint64_t up = SimRowBytes(a.up_dtype, a.n);
    const uint64_t down = SimRowBytes(a.down_dtype, a.n);
    const uint64_t tested = a.gated ? SimRowBytes(a.gate_dtype, a.n) : up;
    const uint64_t rest = (a.gated ? up : 0) + down;
    const size_t row_bytes = Rows(a.num_tokens, a.n);
    Reads("x", a.x, row_bytes);
    if (a.sets != nullptr) {
      Reads("sets", a.sets, Sets(a.num_tokens, a.num_neurons));
    }
    Reads("slot_of", a.slot_of, a.num_neurons * sizeof(int32_t));
    if (a.num_slots > 0) {
      ranges_.Add("records", a.records, a.num_slots * a.record_bytes,
                  counts_.listed * tested + counts_.opened * rest, 0);
    }
    Bias("gate_bias", a.gate_bias, a.num_neurons, counts_.listed);
    Bias("up_bias", a.up_bias, a.num_neurons,
         a.gated ? counts_.opened : counts_.listed);
    Writes("out", a.out, row_bytes);
    if (a.fired != nullptr) {
      Writes("fired", a.fired, Sets(a.num_tokens, a.num_neurons));
    }
    if (a.num_listed != nullptr) Writes("num_listed", a.num_listed, kWord);
    Scratch("scratch", a.scratch,
            kernels::SparseFfnScratchBytes(a.n, a.num_slots, a.num_tokens));
  }

  void operator()(const kernels::ArgMaxArgs& a) {
    Reads("x", a.x, Rows(a.num_tokens, a.n));
    Writes("out", a.out, a.num_tokens * kWord);
  }

  const OpRanges& ranges() const { return ranges_; }

 private:
  static size_t Rows(size_t num_tokens, size_t n) {
    return num_tokens * n * kFloat;
  }
  static size_t Sets(size_t num_tokens, size_t count) {
    return num_tokens * DeviceSetWords(count) * kWord;
  }
  void Reads(const char* name, const void* data, size_t num_bytes) {
    ranges_.Add(name, data, num_bytes, num_bytes, 0);
  }
  void Writes(const char* name, const void* data, size_t num_bytes) {
    ranges_.Add(name, data, num_bytes, 0, num_bytes);
  }
  void Scratch(const char* name, const void* data, size_t num_bytes) {
    ranges_.Add(name, data, num_bytes, 0, 0);
  }
  void Matrix(const char* name, const kernels::DeviceMatrix& matrix) {
    Reads(name, matrix.rows, matrix.num_bytes());
  }
  void Bias(const char* name, const float* data, size_t count, uint64_t read) {
    if (data != nullptr)
      ranges_.Add(name, data, count * kFloat, read * kFloat, 0);
  }

  const SimCounts& counts_;
  OpRanges ranges_;
};

}  // namespace

void OpRanges::Add(const char* name, const void* data, size_t num_bytes,
                   uint64_t reads, uint64_t writes) {
  TC_CHECK(count_ < ranges_.size());
  ranges_[count_++] = {name, data, num_bytes, reads, writes};
}

SimCounts LargestCounts(const kernels::DeviceOp& op) {
  if (const auto* ffn = std::get_if<kernels::SparseFfnArgs>(&op)) {
    return {.listed = ffn->num_slots, .opened = ffn->num_slots};
  }
  if (const auto* attention = std::get_if<kernels::DecodeAttentionArgs>(&op)) {
    return {.positions =
                uint64_t{attention->num_tokens} * attention->max_positions};
  }
  return {};
}

OpRanges RangesOf(const kernels::DeviceOp& op, const SimCounts& counts) {
  RangeFinder finder(counts);
  std::visit(finder, op);
  return finder.ranges();
}

const char* NameOf(const kernels::DeviceOp& op) {
  constexpr const char* kNames[] = {"NormArgs",
                                    "GemvArgs",
                                    "RopeArgs",
                                    "KvAppendArgs",
                                    "DecodeAttentionArgs",
                                    "ActivateArgs",
                                    "AddRowsScaledArgs",
                                    "PredictArgs",
                                    "SparseFfnArgs",
                                    "ArgMaxArgs"};
  static_assert(std::size(kNames) == std::variant_size_v<kernels::DeviceOp>);
  return kNames[op.index()];
}

std::string_view ShortNameOf(const kernels::DeviceOp& op) {
  constexpr std::string_view kArgs = "Args";
  std::string_view name = NameOf(op);
  if (name.ends_with(kArgs)) name.remove_suffix(kArgs.size());
  return name;
}

Status CheckRanges(const kernels::DeviceOp& op, const OpRanges& ranges,
                   const SimMemory& memory) {
  for (const OpRange& range : ranges.all()) {
    if (range.num_bytes == 0) continue;
    const auto wrong = [&](std::string_view what) {
      return Fail(ErrorCode::kCorrupt, "{}: {} {}", NameOf(op), range.name,
                  what);
    };
    if (range.data == nullptr) return wrong("is null");
    if (reinterpret_cast<uintptr_t>(range.data) % 16 != 0) {
      return wrong("is not aligned to 16 bytes");
    }
    const auto place = memory.Find(range.data);
    if (!place.has_value()) {
      return wrong("lies in no buffer of the device, or in one that is freed");
    }
    if (range.num_bytes > place->num_bytes) {
      return wrong(fmt::format("has {} bytes where its buffer has {} left",
                               range.num_bytes, place->num_bytes));
    }
  }
  return {};
}

SimTraffic TrafficOf(const OpRanges& ranges, const SimMemory& memory) {
  SimTraffic traffic;
  for (const OpRange& range : ranges.all()) {
    const auto place = memory.Find(range.data);
    if (place.has_value() && place->kind == MemoryKind::kPinned) {
      traffic.up_bytes += range.reads;
      traffic.down_bytes += range.writes;
    } else {
      traffic.device_bytes += range.reads + range.writes;
    }
  }
  return traffic;
}

}  // namespace thermocline::device

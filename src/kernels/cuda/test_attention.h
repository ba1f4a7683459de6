// Contexts in pages for the tests of attention.cu, and what attention over them
// comes to in double.
#ifndef THERMOCLINE_KERNELS_CUDA_TEST_ATTENTION_H_
#define THERMOCLINE_KERNELS_CUDA_TEST_ATTENTION_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "base/random.h"
#include "kernels/cuda/test_launch.h"
#include "tensor/float16.h"

namespace thermocline::cuda {

struct AttentionShape {
  size_t num_kv_heads, group, k_width, v_width;
  std::vector<uint32_t> counts;
  std::vector<uint32_t> first;  // empty: 0
  float logit_cap = 0.0f;
  uint64_t seed = 1;
};

// Positions that a row does not see are NaN in its pages, and pages without one
// that it sees are no pages.
struct AttentionCase {
  static constexpr size_t kPage = kernels::kDevicePage;
  static constexpr uint32_t kNoPage = 1u << 20;

  AttentionShape shape;
  size_t num_heads, table_stride = 0, page_bytes, v_offset;
  size_t k_offset = 32;
  float scale;
  std::vector<float> q;
  std::vector<uint32_t> table;
  std::vector<uint16_t> pages;

  explicit AttentionCase(AttentionShape s)
      : shape(std::move(s)), num_heads(shape.num_kv_heads * shape.group) {
    Random random(shape.seed);
    v_offset = k_offset + shape.num_kv_heads * kPage * shape.k_width * 2;
    page_bytes = v_offset + shape.num_kv_heads * kPage * shape.v_width * 2;
    scale = 1.0f / std::sqrt(static_cast<float>(shape.k_width));
    q = RandomFloats(random, num_tokens() * num_heads * shape.k_width, 4.0f);
    MakeTable(random);
    for (size_t t = 0; t < num_tokens(); ++t) {
      for (uint32_t p = First(t); p < shape.counts[t]; ++p) {
        for (size_t h = 0; h < shape.num_kv_heads; ++h) {
          FillRow(random, &pages[At(t, h, p, k_offset, shape.k_width)],
                  shape.k_width);
          FillRow(random, &pages[At(t, h, p, v_offset, shape.v_width)],
                  shape.v_width);
        }
      }
    }
  }

  size_t num_tokens() const { return shape.counts.size(); }
  uint32_t First(size_t t) const {
    return shape.first.empty() ? 0 : shape.first[t];
  }
  uint32_t MaxPositions() const {
    return *std::max_element(shape.counts.begin(), shape.counts.end());
  }

  // Pages in no order.
  void MakeTable(Random& random) {
    table_stride = (MaxPositions() + kPage - 1) / kPage + 1;
    table.assign(num_tokens() * table_stride, kNoPage);
    std::vector<size_t> seen;
    for (size_t t = 0; t < num_tokens(); ++t) {
      for (size_t i = First(t) / kPage; i * kPage < shape.counts[t]; ++i) {
        seen.push_back(t * table_stride + i);
      }
    }
    for (size_t i = seen.size(); i > 1; --i) {
      std::swap(seen[i - 1], seen[random.Below(static_cast<uint32_t>(i))]);
    }
    for (uint32_t page = 0; page < seen.size(); ++page) {
      table[seen[page]] = page;
    }
    pages.assign(seen.size() * page_bytes / 2, 0x7fff);
  }

  // Index of a row's key or value in `pages`, by halves.
  size_t At(size_t t, size_t head, uint32_t p, size_t offset,
            size_t width) const {
    const size_t page = table[t * table_stride + p / kPage];
    return (page * page_bytes + offset) / 2 +
           (head * kPage + p % kPage) * width;
  }

  static void FillRow(Random& random, uint16_t* row, size_t width) {
    for (size_t i = 0; i < width; ++i) {
      row[i] = F32ToF16(random.Uniform(-2.0f, 2.0f));
    }
  }

  double Score(size_t t, size_t head, uint32_t p) const {
    const uint16_t* key =
        &pages[At(t, head / shape.group, p, k_offset, shape.k_width)];
    double dot = 0;
    for (size_t i = 0; i < shape.k_width; ++i) {
      dot += double{q[(t * num_heads + head) * shape.k_width + i]} *
             F16ToF32(key[i]);
    }
    dot *= scale;
    const double cap = shape.logit_cap;
    return cap == 0 ? dot : cap * std::tanh(dot / cap);
  }

  std::vector<double> Right() const {
    std::vector<double> out;
    for (size_t t = 0; t < num_tokens(); ++t) {
      for (size_t head = 0; head < num_heads; ++head) {
        std::vector<double> sums(shape.v_width);
        double total = 0;
        for (uint32_t p = First(t); p < shape.counts[t]; ++p) {
          const double weight = std::exp(Score(t, head, p));
          total += weight;
          const uint16_t* value =
              &pages[At(t, head / shape.group, p, v_offset, shape.v_width)];
          for (size_t i = 0; i < shape.v_width; ++i) {
            sums[i] += weight * F16ToF32(value[i]);
          }
        }
        for (const double sum : sums) out.push_back(sum / total);
      }
    }
    return out;
  }

  // Empty: the device failed. max_positions may be more than it has to be.
  std::vector<float> Run(LaunchFn<kernels::DecodeAttentionArgs> launch,
                         uint32_t max_positions = 0) const {
    if (max_positions == 0) max_positions = MaxPositions();
    const DeviceArray<uint16_t> memory(pages);
    const DeviceArray<float> queries(q);
    const DeviceArray<uint32_t> pages_of(table), counts(shape.counts);
    const DeviceArray<uint32_t> firsts(
        shape.first.empty() ? std::vector<uint32_t>{0} : shape.first);
    const DeviceArray<float> out(num_tokens() * num_heads * shape.v_width);
    const DeviceArray<float> partials(kernels::DecodePartialFloats(
        num_tokens(), num_heads, shape.v_width, max_positions));
    kernels::DecodeAttentionArgs args;
    args.kv.pages = reinterpret_cast<std::byte*>(memory.get());
    args.kv.page_bytes = page_bytes;
    args.kv.k_offset = k_offset;
    args.kv.v_offset = v_offset;
    args.kv.num_kv_heads = static_cast<uint32_t>(shape.num_kv_heads);
    args.kv.k_width = static_cast<uint32_t>(shape.k_width);
    args.kv.v_width = static_cast<uint32_t>(shape.v_width);
    args.num_tokens = static_cast<uint32_t>(num_tokens());
    args.num_heads = static_cast<uint32_t>(num_heads);
    args.scale = scale;
    args.logit_cap = shape.logit_cap;
    args.max_positions = max_positions;
    args.q = queries.get();
    args.page_table = pages_of.get();
    args.table_stride = static_cast<uint32_t>(table_stride);
    args.counts = counts.get();
    args.first = shape.first.empty() ? nullptr : firsts.get();
    args.out = out.get();
    args.partials = partials.get();
    launch(args, nullptr);
    pages_address = memory.get();
    if (!TakeFault().empty()) return {};
    return out.Read();
  }

  mutable const void* pages_address = nullptr;  // of the last run
};

}  // namespace thermocline::cuda

#endif  // THERMOCLINE_KERNELS_CUDA_TEST_ATTENTION_H_

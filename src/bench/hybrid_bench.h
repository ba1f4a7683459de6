// Speed of a model whose hot part lies on a device, at several budgets of its
// memory, beside what the bytes that it reads allow.
#ifndef THERMOCLINE_BENCH_HYBRID_BENCH_H_
#define THERMOCLINE_BENCH_HYBRID_BENCH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/status.h"
#include "bench/bench.h"
#include "bench/prompt_pick.h"
#include "device/device.h"
#include "engine/session.h"
#include "model/model.h"

namespace thermocline::bench {

// What the machine can read, bytes per second, and what each layer of which
// anything is on the device costs beside its bytes.
struct HybridRates {
  double device = 0.0;
  double host = 0.0;
  double link = 0.0;             // up; 0: no weights cross it
  double layer_seconds = 15e-6;  // as the papers' systems take
};

// What a number of generated tokens took, all together.
struct HybridCosts {
  uint64_t num_tokens = 0;
  double seconds = 0.0;
  double waiting_seconds = 0.0;  // the host stood still for the device
  // Read by each: the listed neurons, which both read at the same time, and
  // everything else, one after the other.
  uint64_t device_bytes = 0, device_neuron_bytes = 0;
  uint64_t host_bytes = 0, host_neuron_bytes = 0;
  // Of neurons whose gate was read, all, and those on the device.
  uint64_t num_candidates = 0, num_device_candidates = 0;
  // Known of a simulated device alone: how long each was busy, what crossed.
  std::optional<double> device_seconds, link_seconds;
  std::optional<uint64_t> up_bytes, down_bytes;
};

struct HybridRow {
  std::string placement;               // its name; empty: the default
  std::optional<double> predicted_ts;  // tokens per second, by the plan
  std::optional<uint64_t> vram;        // the budget; absent: what is free
  uint64_t num_layers = 0;
  uint64_t num_device_layers = 0;  // of which anything is on the device
  uint64_t num_resident = 0;       // neurons that the device computes
  uint64_t planned_bytes = 0;      // on the device
  uint64_t peak_device_bytes = 0;  // as the device counts
  // Planned, weights too; absent: of a shape alone.
  std::optional<uint64_t> host_bytes;
  HybridCosts costs;
  // Absent: no bound. With a link's also up_bytes of the costs.
  std::optional<HybridRates> rates;

  double tokens_per_s() const;
  // The stepped hybrid's (field of bytes, serial): what each reads alone, then
  // the slower of the two that read neurons together. Where weights cross the
  // link, whoever reads them reads alone, and the link's bytes take their time
  // besides.
  double bound_seconds() const;
};

struct HybridBenchOptions {
  std::vector<std::optional<uint64_t>> vram = {std::nullopt};
  // A device for each budget; called with none of the former alive.
  std::function<Result<std::shared_ptr<device::Device>>()> open_device;
  // Of a device that is not simulated; absent: no bound.
  std::optional<HybridRates> rates;
  std::vector<BenchPrompt> prompts;  // none: fixed ids
  std::string source;                // of the prompts, in messages
  PromptTest test = {.num_prompt = 16, .num_generate = 64};
  // The bench's own: context, device, budget.vram, times, work.
  engine::SessionOptions session;
  ProgressFn progress;
};

// Each prompt once per budget, in its turn, from an empty KV cache: the first
// token that is generated brings the prompt's keys over and does not count. Of
// a simulated device times are virtual: the host's are those of its bytes.
// kInvalidArgument: no tests, PickPrompts' errors. Else the errors of
// open_device, Session::Create and Session::Decode.
Result<std::vector<HybridRow>> RunHybridBench(
    std::shared_ptr<const model::Model> model,
    const HybridBenchOptions& options);

// A row per budget. Keys of JSON: docs/cli.md.
std::string FormatHybridBench(const std::vector<HybridRow>& rows,
                              BenchFormat format);

}  // namespace thermocline::bench

#endif  // THERMOCLINE_BENCH_HYBRID_BENCH_H_

// Speed of static graphs: how weights, keys and values stand in them, how many
// rows and positions they have (NITRO 4: Table 1, Fig. 6 and 7 in form).
#ifndef THERMOCLINE_BENCH_NPU_BENCH_H_
#define THERMOCLINE_BENCH_NPU_BENCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.h"
#include "base/status.h"
#include "bench/bench.h"
#include "bench/subject.h"
#include "engine/session.h"
#include "model/model.h"
#include "npu/forms.h"
#include "npu/static_device.h"

namespace thermocline::bench {

// One way of a model's graphs: its keys and values, or weights as inputs with
// kAppend.
struct NpuMode {
  npu::KvForm kv = npu::KvForm::kAppend;
  bool weights_are_inputs = false;
};
std::string_view NameOf(const NpuMode& mode);  // "append", "param", ...
std::span<const NpuMode> NpuModes();

struct NpuBenchOptions {
  // Every one with every other. Rows are those of prompts; what is generated
  // comes one by one. Modes that take no padding have 1 row throughout.
  std::vector<npu::WeightForm> weights = {npu::WeightForm::kExact};
  std::vector<NpuMode> modes = {NpuMode()};
  std::vector<int64_t> rows = {128};
  std::vector<int64_t> contexts = {512};
  std::vector<size_t> layers_per_graph = {0};  // 0: all
  int64_t num_prompt = 128;
  int64_t num_generate = 8;
  int repetitions = 5;
  npu::CompileOptions compile;
  // The host's row beside them: its prompts and generated tokens, dense.
  engine::SessionOptions host;
  ProgressFn progress;
};

struct NpuRow {
  bool is_host = false;
  npu::WeightForm weights = npu::WeightForm::kExact;
  NpuMode mode;
  int64_t rows = 0;
  int64_t context = 0;
  size_t layers_per_graph = 0;
  std::string error;  // of the device; then none of the figures
  double compile_s = 0.0;
  // Medians of repetitions: of a prompt, and of a generated token.
  double prompt_s = 0.0;
  double token_s = 0.0;
  // Of a prompt's time, what keys and values to the host's cache took beyond
  // what was computed beside; kAppend alone.
  double hand_over_share = 0.0;
  uint64_t anonymous_bytes = 0;  // that the process took for it
  // Of the logits behind the prompt, against the host's, in F32.
  double nmse = 0.0;
};

// More is not the model's: quantised weights give less, other logits about 1.
inline constexpr double kMostNpuNmse = 0.5;

struct NpuBenchReport {
  Subject subject;
  std::string device;
  int num_threads = 0;  // of the host's row
  int64_t num_prompt = 0;
  std::vector<NpuRow> rows;
};

// A device's failure, or logits that are not the model's, is a row with words
// in the place of figures; a cancelled run ends with
// kCancelled. kInvalidArgument: prompt and tokens are more than a context;
// errors of Session::Create.
Result<NpuBenchReport> RunNpuBench(std::shared_ptr<const model::Model> model,
                                   std::shared_ptr<npu::StaticDevice> device,
                                   const NpuBenchOptions& options);

std::string FormatNpuBench(const NpuBenchReport& report, BenchFormat format);

}  // namespace thermocline::bench

#endif  // THERMOCLINE_BENCH_NPU_BENCH_H_

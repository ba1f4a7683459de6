#include "bench/npu_bench.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <utility>

#include "base/clock.h"
#include "bench/samples.h"
#include "engine/runtime.h"
#include "engine/static_session.h"
#include "npu/static_model.h"
#include "os/memory.h"

namespace thermocline::bench {
namespace {

constexpr std::array<NpuMode, 5> kModes = {{{npu::KvForm::kAppend},
                                            {npu::KvForm::kRoll},
                                            {npu::KvForm::kStateful},
                                            {npu::KvForm::kScatter},
                                            {npu::KvForm::kAppend, true}}};

bool IsCancelled(const NpuBenchOptions& options) {
  return options.host.cancel != nullptr && options.host.cancel->load();
}

// Ids that no template or vocabulary minds.
std::vector<text::TokenId> SomeTokens(int64_t count, size_t vocab_size) {
  std::vector<text::TokenId> tokens;
  for (int64_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<text::TokenId>(
        static_cast<size_t>(i * 7919 + 1) % vocab_size));
  }
  return tokens;
}

// sum (a - b)^2 / sum b^2
double NmseOfLogits(std::span<const float> a, std::span<const float> b) {
  double error = 0.0;
  double signal = 0.0;
  for (size_t i = 0; i < b.size(); ++i) {
    const double difference = double{a[i]} - double{b[i]};
    error += difference * difference;
    signal += double{b[i]} * double{b[i]};
  }
  return error / signal;
}

// Medians of a session's prompt and tokens, each repetition from the start; the
// logits behind the first prompt.
Result<std::vector<float>> Measure(engine::Session& session,
                                   const NpuBenchOptions& options,
                                   NpuRow& row) {
  const size_t vocab_size = session.model().config().vocab_size;
  const std::vector<text::TokenId> tokens =
      SomeTokens(options.num_prompt + options.num_generate, vocab_size);
  const std::span<const text::TokenId> all(tokens);
  std::vector<float> logits(vocab_size);
  std::vector<float> of_prompt;
  std::vector<double> prompts;
  std::vector<double> generated;
  // The first is not counted: it compiles.
  for (int i = 0; i <= options.repetitions; ++i) {
    session.Truncate(0);
    const Stopwatch watch;
    TC_RETURN_IF_ERROR(
        session.Prompt(all.first(static_cast<size_t>(options.num_prompt)),
                       engine::LogitsOf::kLast, logits));
    if (i > 0) prompts.push_back(watch.Seconds());
    if (i == 0) of_prompt = logits;
    for (int64_t t = 0; t < options.num_generate; ++t) {
      if (IsCancelled(options)) return Fail(ErrorCode::kCancelled, "cancelled");
      const Stopwatch of_token;
      TC_RETURN_IF_ERROR(session.Generate(
          all.subspan(static_cast<size_t>(options.num_prompt + t), 1),
          engine::LogitsOf::kLast, logits));
      if (i > 0) generated.push_back(of_token.Seconds());
    }
  }
  row.prompt_s = MedianOf(std::move(prompts));
  row.token_s = MedianOf(std::move(generated));
  return of_prompt;
}

npu::StaticOptions GraphsOf(const NpuRow& row, const NpuBenchOptions& options) {
  npu::StaticOptions graphs;
  graphs.weights = row.weights;
  graphs.kv = row.mode.kv;
  graphs.weights_are_inputs = row.mode.weights_are_inputs;
  graphs.layers_per_program = row.layers_per_graph;
  graphs.rows = row.rows == 1 ? std::vector<int64_t>{1}
                              : std::vector<int64_t>{1, row.rows};
  graphs.context = row.context;
  graphs.contexts = {row.context};
  graphs.unpack_threads = engine::NumThreadsOf(options.host).value_or(1);
  graphs.compile = options.compile;
  return graphs;
}

// The same prompt with keys and values going to a host that keeps them.
Status MeasureHandOver(const std::shared_ptr<const model::Model>& model,
                       const std::shared_ptr<npu::StaticDevice>& device,
                       const NpuBenchOptions& options, NpuRow& row) {
  TC_ASSIGN_OR_RETURN(
      const auto graphs,
      npu::StaticModel::Create(model, device, GraphsOf(row, options)));
  const auto num_elems =
      static_cast<size_t>(options.num_prompt) * model->config().width;
  std::vector<uint16_t> kept(num_elems * 2);
  const npu::KvSink sink = {.put = [&](size_t layer_idx, int64_t first,
                                       int64_t count, const uint16_t* k,
                                       const uint16_t* v) {
    const model::AttentionSpec& of =
        model->config().layers[layer_idx].attention;
    const size_t k_width = of.num_kv_heads * of.key_width;
    const size_t v_width = of.num_kv_heads * of.value_width;
    const auto offset = static_cast<size_t>(first);
    const auto rows = static_cast<size_t>(count);
    if ((offset + rows) * std::max(k_width, v_width) > num_elems) return;
    std::copy_n(k, rows * k_width, &kept[offset * k_width]);
    std::copy_n(v, rows * v_width, &kept[num_elems + offset * v_width]);
  }};
  std::vector<double> shares;
  for (int i = 0; i <= options.repetitions; ++i) {
    std::vector<float> x(num_elems, 0.01F);
    graphs->Truncate(0);
    graphs->ResetTimes();
    TC_RETURN_IF_ERROR(graphs->Run(npu::PackedRows(x, model->config().width),
                                   &sink,
                                   [&] { return IsCancelled(options); }));
    const npu::StaticTimes& times = graphs->times();
    if (i > 0) shares.push_back(times.hand_over_wait_s / times.whole_s);
  }
  row.hand_over_share = MedianOf(std::move(shares));
  return {};
}

Status MeasureGraphs(const std::shared_ptr<const model::Model>& model,
                     const std::shared_ptr<npu::StaticDevice>& device,
                     const NpuBenchOptions& options,
                     std::span<const float> host_logits, NpuRow& row) {
  const uint64_t before = os::ReadProcessMemory().anonymous_bytes;
  {
    TC_ASSIGN_OR_RETURN(
        const auto session,
        engine::MakeStaticSession(model, device,
                                  {.graphs = GraphsOf(row, options),
                                   .budget = options.host.budget,
                                   .cancel = options.host.cancel}));
    TC_ASSIGN_OR_RETURN(const std::vector<float> logits,
                        Measure(*session, options, row));
    row.nmse = NmseOfLogits(logits, host_logits);
    if (!(row.nmse <= kMostNpuNmse)) {
      return Fail(ErrorCode::kIo,
                  "its logits have an NMSE of {:.1e} against the host's: they "
                  "are not the model's",
                  row.nmse);
    }
    row.compile_s = session->prompt_times().compile_s;
    const uint64_t after = os::ReadProcessMemory().anonymous_bytes;
    row.anonymous_bytes = after - std::min(before, after);
  }
  if (row.mode.kv != npu::KvForm::kAppend) return {};
  return MeasureHandOver(model, device, options, row);
}

Result<std::vector<float>> MeasureHost(
    const std::shared_ptr<const model::Model>& model,
    const NpuBenchOptions& options, const engine::SessionOptions& of_session,
    NpuRow& row, int& num_threads) {
  row.is_host = true;
  TC_ASSIGN_OR_RETURN(const auto session,
                      engine::Session::Create(model, of_session));
  num_threads = session->num_threads();
  return Measure(*session, options, row);
}

std::vector<NpuRow> ListRows(const NpuBenchOptions& options) {
  std::vector<NpuRow> rows;
  for (const npu::WeightForm weights : options.weights) {
    for (const NpuMode& mode : options.modes) {
      for (const int64_t context : options.contexts) {
        for (const size_t layers : options.layers_per_graph) {
          // Of weights as inputs a graph has one layer.
          const bool is_param = mode.weights_are_inputs;
          if (is_param && layers != options.layers_per_graph.front()) continue;
          for (const int64_t count : options.rows) {
            const bool is_one = mode.kv != npu::KvForm::kAppend;
            if (is_one && count != options.rows.front()) continue;
            rows.push_back({.weights = weights,
                            .mode = mode,
                            .rows = is_one ? 1 : count,
                            .context = context,
                            .layers_per_graph = is_param ? 1 : layers});
          }
        }
      }
    }
  }
  return rows;
}

Status CheckLengths(const NpuBenchOptions& options) {
  const int64_t least = std::ranges::min(options.contexts);
  const int64_t most_rows = std::ranges::max(options.rows);
  const int64_t num_positions = options.num_prompt + options.num_generate;
  if (num_positions <= least && most_rows < least) return {};
  return Fail(ErrorCode::kInvalidArgument,
              "a prompt of {}, {} generated tokens and graphs of {} rows: more "
              "than a context of {} holds",
              options.num_prompt, options.num_generate, most_rows, least);
}

}  // namespace

std::string_view NameOf(const NpuMode& mode) {
  return mode.weights_are_inputs ? "param" : npu::NameOf(mode.kv);
}

std::span<const NpuMode> NpuModes() { return kModes; }

Result<NpuBenchReport> RunNpuBench(std::shared_ptr<const model::Model> model,
                                   std::shared_ptr<npu::StaticDevice> device,
                                   const NpuBenchOptions& options) {
  TC_RETURN_IF_ERROR(CheckLengths(options));
  engine::SessionOptions host_options = options.host;
  host_options.context = std::ranges::max(options.contexts);
  host_options.ffn = engine::FfnMode::kDense;
  NpuBenchReport report = {.subject = SubjectOf(*model, host_options),
                           .device = device->Describe(),
                           .num_prompt = options.num_prompt,
                           .rows = ListRows(options)};
  report.subject.ffn = "dense";
  NpuRow host = {.rows = options.host.batch, .context = host_options.context};
  TC_ASSIGN_OR_RETURN(
      const std::vector<float> host_logits,
      MeasureHost(model, options, host_options, host, report.num_threads));
  for (size_t i = 0; i < report.rows.size(); ++i) {
    ReportProgress(options.progress, "rows", i + 1, report.rows.size() + 1);
    const Status status =
        MeasureGraphs(model, device, options, host_logits, report.rows[i]);
    if (status.has_value()) continue;
    if (status.error().code == ErrorCode::kCancelled && IsCancelled(options)) {
      return tl::unexpected(status.error());
    }
    report.rows[i].error = status.error().message;
  }
  report.rows.insert(report.rows.begin(), host);
  return report;
}

}  // namespace thermocline::bench

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/units.h"
#include "bench/npu_bench.h"
#include "bench/table.h"

namespace thermocline::bench {
namespace {

// Whether the row has figures.
bool Ran(const NpuRow& row) { return row.error.empty(); }

double PromptRate(const NpuRow& row, const NpuBenchReport& report) {
  return static_cast<double>(report.num_prompt) / row.prompt_s;
}

std::string ModeCell(const NpuRow& row) {
  return row.is_host ? "host" : std::string(NameOf(row.mode));
}

std::string LayersCell(const NpuRow& row) {
  if (row.is_host) return "";
  return row.layers_per_graph == 0 ? "all"
                                   : std::to_string(row.layers_per_graph);
}

std::array<std::string, 10> CellsOf(const NpuRow& row,
                                    const NpuBenchReport& report) {
  const bool ran = Ran(row);
  const auto figure = [&](const std::string& text) {
    return ran ? text : std::string("X");
  };
  const auto of_graphs = [&](const std::string& text) {
    return row.is_host ? "" : figure(text);
  };
  return {ModeCell(row),
          row.is_host ? "" : std::string(npu::NameOf(row.weights)),
          row.is_host ? "" : std::to_string(row.rows),
          std::to_string(row.context),
          LayersCell(row),
          of_graphs(fmt::format("{:.1f}", row.compile_s)),
          figure(ran ? fmt::format("{:.1f}", PromptRate(row, report)) : ""),
          figure(fmt::format("{:.2f}", 1e3 * row.token_s)),
          of_graphs(FormatBytes(row.anonymous_bytes)),
          of_graphs(fmt::format("{:.1e}", row.nmse))};
}

// What a reader must know about a row.
std::string NoteOf(const NpuRow& row) {
  const std::string title =
      fmt::format("{}, {}, {} rows, context {}", ModeCell(row),
                  npu::NameOf(row.weights), row.rows, row.context);
  if (!Ran(row)) return fmt::format("{}: {}\n", title, row.error);
  if (row.hand_over_share <= 0.0) return "";
  return fmt::format(
      "{}: keys and values to the host took {:.1f} % of a prompt\n", title,
      100.0 * row.hand_over_share);
}

std::string FormatMarkdown(const NpuBenchReport& report) {
  const std::array<Column, 10> columns = {{{"mode", 8},
                                           {"weights", 8},
                                           {"rows", 4},
                                           {"context", 7},
                                           {"layers", 6},
                                           {"compile s", 9},
                                           {"prompt t/s", 10},
                                           {"ms/token", 8},
                                           {"memory", 9},
                                           {"NMSE", 7}}};
  std::string out = TableHead(columns);
  std::string notes;
  for (const NpuRow& row : report.rows) {
    out += TableLine(report.subject, report.num_threads, columns,
                     CellsOf(row, report));
    notes += NoteOf(row);
  }
  return out + "\n" + notes +
         fmt::format("on {}; prompts of {} tokens\n", report.device,
                     report.num_prompt);
}

std::vector<TableRow> RowsOf(const NpuBenchReport& report) {
  std::vector<TableRow> rows;
  for (const NpuRow& row : report.rows) {
    nlohmann::ordered_json values = {
        {"mode", ModeCell(row)},
        {"weights", row.is_host ? "" : npu::NameOf(row.weights)},
        {"rows", row.rows},
        {"context", row.context},
        {"layers_per_graph", row.layers_per_graph},
        {"n_prompt", report.num_prompt}};
    const bool ran = Ran(row);
    const auto add = [&](const char* name, double value) {
      values[name] = ran ? nlohmann::ordered_json(value) : nullptr;
    };
    add("compile_s", row.compile_s);
    add("prompt_ts", ran ? PromptRate(row, report) : 0.0);
    add("token_s", row.token_s);
    add("hand_over_share", row.hand_over_share);
    add("anonymous_bytes", static_cast<double>(row.anonymous_bytes));
    add("nmse", row.nmse);
    values["failed"] = !ran;
    rows.push_back({report.num_threads, std::move(values)});
  }
  return rows;
}

}  // namespace

std::string FormatNpuBench(const NpuBenchReport& report, BenchFormat format) {
  switch (format) {
    case BenchFormat::kMarkdown:
      return FormatMarkdown(report);
    case BenchFormat::kJson:
      return TableJson(report.subject, RowsOf(report));
    case BenchFormat::kCsv:
      return TableCsv(report.subject, RowsOf(report));
  }
  return {};
}

}  // namespace thermocline::bench

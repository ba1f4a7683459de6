#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/units.h"
#include "bench/budget_bench.h"
#include "bench/budget_bound.h"
#include "bench/samples.h"

namespace thermocline::bench {
namespace {

struct BudgetPercentiles {
  double p50 = 0.0, p90 = 0.0, p99 = 0.0;
};

template <typename Value>
BudgetPercentiles PercentilesOver(const std::vector<StreamedToken>& tokens,
                                  Value&& value) {
  std::vector<double> samples;
  for (const StreamedToken& token : tokens) {
    samples.push_back(static_cast<double>(value(token)));
  }
  const double shares[] = {0.5, 0.9, 0.99};
  const std::vector<double> found = PercentilesOf(std::move(samples), shares);
  return {found[0], found[1], found[2]};
}

double SumOver(const std::vector<StreamedToken>& tokens, auto&& value) {
  double sum = 0.0;
  for (const StreamedToken& token : tokens) {
    sum += static_cast<double>(value(token));
  }
  return sum;
}

// The bound's, or null where there is none.
void AddBound(const BudgetRow& row, nlohmann::ordered_json& values) {
  for (const char* name : {"drive_bytes_per_s", "host_bytes_per_s", "bound_ts",
                           "percent_of_bound"}) {
    values[name] = nullptr;
  }
  if (!row.rates) return;
  if (row.rates->drive) values["drive_bytes_per_s"] = *row.rates->drive;
  values["host_bytes_per_s"] = row.rates->host;
  const double bound = row.bound_seconds();
  values["bound_ts"] = static_cast<double>(row.tokens.size()) / bound;
  values["percent_of_bound"] =
      100.0 * bound / SumOver(row.tokens, [](const StreamedToken& token) {
        return token.seconds;
      });
}

// Of reads that were replayed, or nulls.
void AddReplay(const BudgetRow& row, const std::vector<BudgetRow>& rows,
               nlohmann::ordered_json& values) {
  for (const char* name : {"reads_alone_ms", "reads_in_turns_ms", "compute_ms",
                           "compute_from", "times_bound", "replayed_tokens",
                           "replay_reader", "replay_depth", "replay_direct"}) {
    values[name] = nullptr;
  }
  const auto bound = BoundOf(row, rows);
  if (!bound) return;
  values["reads_alone_ms"] = 1e3 * bound->reads_seconds;
  values["reads_in_turns_ms"] = 1e3 * bound->in_turns_seconds;
  values["compute_ms"] = 1e3 * bound->compute_seconds;
  values["compute_from"] = bound->in_memory != nullptr ? "memory" : "waits";
  values["times_bound"] = bound->times();
  values["replayed_tokens"] = row.replay->seconds.size();
  values["replay_reader"] = row.replay->reader;
  values["replay_depth"] = row.replay->depth;
  values["replay_direct"] = row.replay->is_direct;
}

// What a row says, by the names of JSON.
nlohmann::ordered_json BudgetValues(const BudgetRow& row,
                                    const std::vector<BudgetRow>& rows) {
  const auto num_tokens = static_cast<double>(row.tokens.size());
  const auto seconds = [](const StreamedToken& token) { return token.seconds; };
  const auto read = [](const StreamedToken& token) {
    return token.stream_bytes;
  };
  const auto per_token = [&](uint64_t StreamedToken::* member) {
    return SumOver(row.tokens,
                   [&](const StreamedToken& token) { return token.*member; }) /
           num_tokens;
  };
  const BudgetPercentiles times = PercentilesOver(row.tokens, seconds);
  const BudgetPercentiles bytes = PercentilesOver(row.tokens, read);
  nlohmann::ordered_json values = {
      {"storage", nullptr},
      {"ram", row.ram},
      {"unit", nullptr},
      {"resident", row.resident},
      {"n_gen", row.tokens.size()},
      {"ts", MedianOf(row.tokens_per_s)},
      {"p50_ms", 1e3 * times.p50},
      {"p90_ms", 1e3 * times.p90},
      {"p99_ms", 1e3 * times.p99},
      {"misses_per_token", per_token(&StreamedToken::num_missed)},
      {"read_bytes_per_token", per_token(&StreamedToken::stream_bytes)},
      {"read_p99_of_median", nullptr}};
  if (!row.storage.empty()) values["storage"] = row.storage;
  if (!row.unit.empty()) values["unit"] = row.unit;
  if (bytes.p50 > 0.0) values["read_p99_of_median"] = bytes.p99 / bytes.p50;
  AddBound(row, values);
  AddReplay(row, rows, values);
  values["hits_per_token"] = per_token(&StreamedToken::num_hits);
  values["moves_per_token"] = per_token(&StreamedToken::num_moves);
  values["wasted_per_token"] = per_token(&StreamedToken::num_wasted);
  values["moved_bytes_per_token"] = per_token(&StreamedToken::move_bytes);
  values["planned_bytes"] = row.planned_bytes;
  values["peak_bytes"] = row.peak_bytes;
  return values;
}

std::string NumberOrDash(const nlohmann::ordered_json& value, double unit) {
  if (value.is_null()) return "-";
  return fmt::format("{:.2f}", value.get<double>() / unit);
}

std::string BudgetMarkdown(const std::vector<BudgetRow>& rows) {
  const bool is_named = std::ranges::any_of(
      rows, [](const BudgetRow& row) { return !row.storage.empty(); });
  std::string out =
      std::string(is_named ? "| storage " : "") +
      "| RAM | resident | t/s | P50 ms | P90 ms | P99 ms | misses a token | "
      "MB read a token | MB moved | P99 / median | bound t/s | % of bound | "
      "reads alone ms | x bound | peak memory |\n" +
      (is_named ? "|---" : "") +
      "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
      "---:|"
      "\n";
  for (const BudgetRow& row : rows) {
    const nlohmann::ordered_json v = BudgetValues(row, rows);
    if (is_named) out += fmt::format("| {} ", row.storage);
    out += fmt::format(
        "| {} | {:.1f} % | {:.2f} | {} | {} | {} | {:.1f}{} | {} | {} | {} | "
        "{} | {} | {} | {} | {} |\n",
        FormatBytes(row.ram), 100.0 * row.resident, v["ts"].get<double>(),
        NumberOrDash(v["p50_ms"], 1), NumberOrDash(v["p90_ms"], 1),
        NumberOrDash(v["p99_ms"], 1), v["misses_per_token"].get<double>(),
        row.unit.empty() ? "" : " " + row.unit,
        NumberOrDash(v["read_bytes_per_token"], 1e6),
        NumberOrDash(v["moved_bytes_per_token"], 1e6),
        NumberOrDash(v["read_p99_of_median"], 1),
        NumberOrDash(v["bound_ts"], 1), NumberOrDash(v["percent_of_bound"], 1),
        NumberOrDash(v["reads_alone_ms"], 1), NumberOrDash(v["times_bound"], 1),
        FormatBytes(row.peak_bytes));
  }
  const std::string bounds = DescribeBounds(rows);
  if (!bounds.empty()) out += "\n" + bounds;
  return out;
}

std::string BudgetCsv(const std::vector<BudgetRow>& rows) {
  std::string out;
  for (const BudgetRow& row : rows) {
    std::string names, numbers;
    const nlohmann::ordered_json values = BudgetValues(row, rows);
    for (const auto& [name, value] : values.items()) {
      const char* comma = names.empty() ? "" : ",";
      names += comma + name;
      if (value.is_string()) {
        numbers += comma + value.get<std::string>();
      } else {
        numbers += comma + (value.is_null() ? "" : value.dump());
      }
    }
    if (out.empty()) out = names + "\n";
    out += numbers + "\n";
  }
  return out;
}

}  // namespace

std::string FormatBudgetBench(const std::vector<BudgetRow>& rows,
                              BenchFormat format) {
  if (format == BenchFormat::kMarkdown) return BudgetMarkdown(rows);
  if (format == BenchFormat::kCsv) return BudgetCsv(rows);
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const BudgetRow& row : rows) all.push_back(BudgetValues(row, rows));
  return all.dump(2) + "\n";
}

}  // namespace thermocline::bench

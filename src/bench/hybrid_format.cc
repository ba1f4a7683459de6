#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/units.h"
#include "bench/hybrid_bench.h"

namespace thermocline::bench {
namespace {

double Share(double part, double whole) {
  return whole > 0.0 ? part / whole : 0.0;
}
template <typename A, typename B>
double Ratio(A part, B whole) {
  return Share(static_cast<double>(part), static_cast<double>(whole));
}

nlohmann::ordered_json TextOrNull(const std::string& text) {
  if (text.empty()) return nullptr;
  return text;
}

// What a row says, by the names of JSON.
nlohmann::ordered_json ValuesOf(const HybridRow& row) {
  const HybridCosts& costs = row.costs;
  const auto per_token = [&](auto sum) { return Ratio(sum, costs.num_tokens); };
  const auto or_null = [](const auto& value, auto&& f) {
    return value ? nlohmann::ordered_json(f(*value)) : nullptr;
  };
  const auto busy = [&](double s) { return Share(s, costs.seconds); };
  nlohmann::ordered_json values = {
      {"placement", TextOrNull(row.placement)},
      {"predicted_ts", or_null(row.predicted_ts, [](double v) { return v; })},
      {"vram", or_null(row.vram, [](uint64_t v) { return v; })},
      {"n_gen", costs.num_tokens},
      {"ts", row.tokens_per_s()},
      {"bound_ts", nullptr},
      {"percent_of_bound", nullptr},
      {"device_busy", or_null(costs.device_seconds, busy)},
      {"host_busy", 1.0 - busy(costs.waiting_seconds)},
      {"link_busy", or_null(costs.link_seconds, busy)},
      {"active_on_device",
       Ratio(costs.num_device_candidates, costs.num_candidates)},
      {"active_of_resident", Share(per_token(costs.num_device_candidates),
                                   static_cast<double>(row.num_resident))},
      {"up_bytes_per_token", or_null(costs.up_bytes, per_token)},
      {"down_bytes_per_token", or_null(costs.down_bytes, per_token)},
      {"waiting_ns_per_layer",
       1e9 * Share(per_token(costs.waiting_seconds),
                   static_cast<double>(row.num_layers))},
      {"device_bytes_per_token", per_token(costs.device_bytes)},
      {"host_bytes_per_token", per_token(costs.host_bytes)},
      {"planned_device_bytes", row.planned_bytes},
      {"peak_device_bytes", row.peak_device_bytes},
      {"planned_host_bytes",
       or_null(row.host_bytes, [](uint64_t v) { return v; })}};
  if (row.rates) {
    const double bound = row.bound_seconds();
    values["bound_ts"] = Share(static_cast<double>(costs.num_tokens), bound);
    values["percent_of_bound"] = 100.0 * Share(bound, costs.seconds);
  }
  return values;
}

std::string Percent(const nlohmann::ordered_json& share) {
  if (share.is_null()) return "-";
  return fmt::format("{:.1f} %", 100.0 * share.get<double>());
}

std::string Number(const nlohmann::ordered_json& value, double unit) {
  if (value.is_null()) return "-";
  return fmt::format("{:.2f}", value.get<double>() / unit);
}

std::string Markdown(const std::vector<HybridRow>& rows) {
  const bool is_named = std::ranges::any_of(
      rows, [](const HybridRow& row) { return !row.placement.empty(); });
  std::string out =
      std::string(is_named ? "| placement | predicted t/s " : "") +
      "| VRAM | t/s | bound | % of bound | device busy | host busy | link busy "
      "| active on device | active of resident | MB up | MB down | wait µs a "
      "layer | peak VRAM | RAM |\n" +
      (is_named ? "|---|---:" : "") +
      "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
      "\n";
  for (const HybridRow& row : rows) {
    const nlohmann::ordered_json v = ValuesOf(row);
    if (is_named) {
      out += fmt::format("| {} | {} ", row.placement,
                         Number(v["predicted_ts"], 1));
    }
    out += fmt::format(
        "| {} | {:.2f} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} "
        "| {} |\n",
        row.vram ? FormatBytes(*row.vram) : "free", row.tokens_per_s(),
        Number(v["bound_ts"], 1), Number(v["percent_of_bound"], 1),
        Percent(v["device_busy"]), Percent(v["host_busy"]),
        Percent(v["link_busy"]), Percent(v["active_on_device"]),
        Percent(v["active_of_resident"]), Number(v["up_bytes_per_token"], 1e6),
        Number(v["down_bytes_per_token"], 1e6),
        Number(v["waiting_ns_per_layer"], 1e3),
        FormatBytes(row.peak_device_bytes),
        row.host_bytes ? FormatBytes(*row.host_bytes) : "-");
  }
  return out;
}

std::string Csv(const std::vector<HybridRow>& rows) {
  std::string out;
  for (const HybridRow& row : rows) {
    const nlohmann::ordered_json values = ValuesOf(row);
    if (out.empty()) {
      for (const auto& [name, value] : values.items()) {
        out += (out.empty() ? "" : ",") + name;
      }
      out += "\n";
    }
    bool is_first = true;
    for (const auto& [name, value] : values.items()) {
      out += (is_first ? "" : ",") + (value.is_null() ? "" : value.dump());
      is_first = false;
    }
    out += "\n";
  }
  return out;
}

}  // namespace

std::string FormatHybridBench(const std::vector<HybridRow>& rows,
                              BenchFormat format) {
  if (format == BenchFormat::kMarkdown) return Markdown(rows);
  if (format == BenchFormat::kCsv) return Csv(rows);
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const HybridRow& row : rows) all.push_back(ValuesOf(row));
  return all.dump(2) + "\n";
}

}  // namespace thermocline::bench

#include "bench/table.h"

#include <fmt/format.h>

#include <vector>

#include "base/units.h"

namespace thermocline::bench {
namespace {

using Json = nlohmann::ordered_json;

// Nanoseconds whole, shares of a bound as a reader needs them.
int DecimalsOf(std::string_view name) {
  if (name.ends_with("_ns")) return 0;
  return name.starts_with("percent_") ? 3 : 6;
}

std::string CsvField(std::string_view name, const Json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) {
    return fmt::format("{:.{}f}", value.get<double>(), DecimalsOf(name));
  }
  return value.dump();
}

}  // namespace

std::string TableJson(const Subject& subject, std::span<const TableRow> rows) {
  Json array = Json::array();
  for (const TableRow& row : rows) {
    array.push_back(SubjectJson(subject, row.num_threads));
    array.back().update(row.values);
  }
  // Paths and names are any bytes; JSON is UTF-8.
  return array.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string TableCsv(const Subject& subject, std::span<const TableRow> rows,
                     std::span<const std::string_view> names) {
  std::string out =
      fmt::format("{}{}\n", kSubjectCsvNames, fmt::join(names, ","));
  for (const TableRow& row : rows) {
    std::vector<std::string> fields;
    for (const std::string_view name : names) {
      fields.push_back(CsvField(name, row.values.at(std::string(name))));
    }
    out += fmt::format("{}{}\n", SubjectCsv(subject, row.num_threads),
                       fmt::join(fields, ","));
  }
  return out;
}

std::string TableCsv(const Subject& subject, std::span<const TableRow> rows) {
  std::vector<std::string_view> names;
  for (const auto& [name, value] : rows.front().values.items()) {
    if (!value.is_array()) names.push_back(name);
  }
  return TableCsv(subject, rows, names);
}

std::string TableHead(std::span<const Column> columns) {
  std::string names = SubjectHeader();
  std::string rule = SubjectRule();
  for (const auto& [name, width] : columns) {
    names += fmt::format(" {:>{}} |", name, width);
    rule += fmt::format(" {:->{}}: |", "", width - 1);
  }
  return names + "\n" + rule + "\n";
}

std::string TableLine(const Subject& subject, int num_threads,
                      std::span<const Column> columns,
                      std::span<const std::string> cells) {
  std::string out = SubjectCells(subject, num_threads);
  for (size_t i = 0; i < columns.size(); ++i) {
    out += fmt::format(" {:>{}} |", cells[i], columns[i].width);
  }
  return out + "\n";
}

std::optional<double> PercentOfRoof(double gb_per_s, double roof_gb_per_s,
                                    bool in_cache) {
  if (in_cache || roof_gb_per_s <= 0.0) return std::nullopt;
  return 100.0 * gb_per_s / roof_gb_per_s;
}

std::string RoofCell(std::optional<double> percent, bool in_cache) {
  if (percent.has_value()) return fmt::format("{:.1f}", *percent);
  return in_cache ? "in cache" : "";
}

std::string DroppedNote(std::string_view name, int num_dropped, size_t num_kept,
                        std::string_view unit) {
  if (num_dropped == 0) return "";
  return fmt::format("{}: {} of {} dropped, the machine was busy\n", name,
                     num_dropped,
                     Plural(num_kept + static_cast<size_t>(num_dropped), unit));
}

}  // namespace thermocline::bench

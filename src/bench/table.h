// Tables of speeds: rows of the same columns as Markdown, JSON and CSV, each
// beginning with those of the subject.
#ifndef THERMOCLINE_BENCH_TABLE_H_
#define THERMOCLINE_BENCH_TABLE_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "bench/subject.h"

namespace thermocline::bench {

// A row's numbers by their names, in the order of JSON.
struct TableRow {
  int num_threads = 0;
  nlohmann::ordered_json values;
};

// A JSON array of objects; bytes that are no UTF-8 are replaced.
std::string TableJson(const Subject& subject, std::span<const TableRow> rows);

// A line of names and one per row: the values named by `names`, in its order;
// null is an empty field. Requires names of numbers, booleans and strings that
// need no quotes.
std::string TableCsv(const Subject& subject, std::span<const TableRow> rows,
                     std::span<const std::string_view> names);

// The same of all values but arrays, in the order of JSON. Requires rows.
std::string TableCsv(const Subject& subject, std::span<const TableRow> rows);

struct Column {
  std::string_view name;
  size_t width;  // at least; cells are set to the right
};

// The first two lines of a Markdown table, and a row of it.
std::string TableHead(std::span<const Column> columns);
std::string TableLine(const Subject& subject, int num_threads,
                      std::span<const Column> columns,
                      std::span<const std::string> cells);

// 100 * gb_per_s / roof_gb_per_s; none without a roof, and where the cache
// hides it.
std::optional<double> PercentOfRoof(double gb_per_s, double roof_gb_per_s,
                                    bool in_cache);
std::string RoofCell(std::optional<double> percent, bool in_cache);

// "NAME: 2 of 5 runs dropped, the machine was busy\n"; empty if none were.
// `num_kept` counts beside those.
std::string DroppedNote(std::string_view name, int num_dropped, size_t num_kept,
                        std::string_view unit);

}  // namespace thermocline::bench

#endif  // THERMOCLINE_BENCH_TABLE_H_

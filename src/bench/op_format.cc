#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/units.h"
#include "bench/op_bench.h"
#include "bench/table.h"

namespace thermocline::bench {
namespace {

using OpJson = nlohmann::ordered_json;

constexpr std::string_view kNothing = "-";

std::string SparsityCell(const OpSparseRow& row) {
  if (!row.sparsity) return "dense";
  return fmt::format("{:.4g} %", 100 * *row.sparsity);
}

std::string BoundCell(const OpReport& report, const OpSparseRow& row) {
  const auto percent = PercentOfBound(report, row);
  if (percent) return fmt::format("{:.1f}", *percent);
  return std::string(report.subjects[row.subject].in_cache ? "in cache"
                                                           : kNothing);
}

std::string FormatSparse(const OpReport& report) {
  std::string out = fmt::format(
      "Neurons of one layer, {} wide, {} neurons of {}, one row; a random set "
      "for each round:\n\n"
      "| {:<6} | {:>8} | {:>10} | {:>8} | {:>8} | {:>10} |\n"
      "| {:-<6} | {:->7}: | {:->9}: | {:->7}: | {:->7}: | {:->9}: |\n",
      report.shape.width, report.shape.num_neurons, NameOf(report.shape.dtype),
      "device", "sparsity", "us", "of dense", "GB/s", "% of bound", "", "", "",
      "", "", "");
  for (const OpSparseRow& row : report.sparse) {
    out += fmt::format(
        "| {:<6} | {:>8} | {:>10.2f} | {:>8.3f} | {:>8.2f} | {:>10} |\n",
        report.subjects[row.subject].name, SparsityCell(row), 1e6 * row.seconds,
        row.seconds / row.dense_seconds, row.gb_per_s(),
        BoundCell(report, row));
  }
  return out;
}

std::string Describe(const OpFacts& facts) {
  std::string out = facts.card.empty()
                        ? facts.name
                        : fmt::format("{} ({})", facts.name, facts.card);
  out += fmt::format(": {} of the layer, {}",
                     facts.num_copies == 1
                         ? "one copy"
                         : fmt::format("{} copies", facts.num_copies),
                     FormatBytes(facts.num_bytes));
  if (facts.is_stated) {
    out += ", simulated";
  } else if (facts.in_cache) {
    out += ", which are not twice the cache: in cache, and no bound";
  }
  if (facts.roof_gb_per_s) {
    out += fmt::format("; bound: the bytes of the weights at {:.2f} GB/s, {}",
                       *facts.roof_gb_per_s,
                       facts.is_stated ? "stated" : "measured in this run");
  }
  return out;
}

// Which sparsity is worth it, for each subject.
std::string FormatWins(const OpReport& report) {
  std::string out = "\n";
  for (size_t i = 0; i < report.subjects.size(); ++i) {
    const auto from = SparseWinsFrom(report, i);
    out += fmt::format(
        "{}; sparse beats dense {}\n", Describe(report.subjects[i]),
        from ? fmt::format("from {:.4g} % on", 100 * *from) : "at no sparsity");
  }
  out += fmt::format(
      "Memory: at most {} of weights on each; medians, rounds: {}; seed: {}\n",
      FormatBytes(report.most_bytes), report.rounds, report.seed);
  return out;
}

std::string MillisecondsCell(const std::optional<double>& seconds) {
  if (!seconds) return std::string(kNothing);
  return fmt::format("{:.4f}", 1e3 * *seconds);
}

std::string MoveLine(const OpReport& report, const OpMoveRow& row) {
  const std::optional<double> sum = row.sum();
  return fmt::format(
      "| {:<6} | {:>5.4g} % | {:>7} | {:>5} | {:>11} | {:>9} | {:>10} | {:>9} "
      "| {:>5} |\n",
      report.subjects[row.subject].name, 100 * row.share, row.num_neurons,
      row.batch, MillisecondsCell(row.in_place_seconds),
      MillisecondsCell(row.move_seconds), MillisecondsCell(row.compute_seconds),
      MillisecondsCell(sum),
      sum ? fmt::format("{:.2f}", *sum / row.in_place_seconds) : kNothing);
}

// Behind the last row of a share.
std::string MoveNote(const OpReport& report, const OpMoveRow& row) {
  if (!row.sum()) return "";
  const auto from = MovingWinsFrom(report, row.subject, row.share);
  return fmt::format(
      "{}, {:.4g} %: moving wins {}\n", report.subjects[row.subject].name,
      100 * row.share,
      from ? fmt::format("from batch {} on", *from) : "at no batch");
}

std::string FormatMoves(const OpReport& report) {
  if (report.moves.empty()) return "";
  std::string out = fmt::format(
      "\nA share of the neurons lies with the host: computed there, or moved "
      "to the device in one piece\nand computed there. Both compute {} rows "
      "at once, larger batches in groups:\n\n"
      "| {:<6} | {:>7} | {:>7} | {:>5} | {:>11} | {:>9} | {:>10} | {:>9} | "
      "{:>5} |\n"
      "| {:-<6} | {:->6}: | {:->6}: | {:->4}: | {:->10}: | {:->8}: | {:->9}: | "
      "{:->8}: | {:->4}: |\n",
      OpLayer::kRows, "device", "share", "neurons", "batch", "in place ms",
      "move ms", "compute ms", "sum ms", "ratio", "", "", "", "", "", "", "",
      "", "");
  std::string notes = "\n";
  for (size_t i = 0; i < report.moves.size(); ++i) {
    const OpMoveRow& row = report.moves[i];
    out += MoveLine(report, row);
    const bool is_last = i + 1 == report.moves.size() ||
                         report.moves[i + 1].subject != row.subject ||
                         report.moves[i + 1].share != row.share;
    if (is_last) notes += MoveNote(report, row);
  }
  return out + (notes == "\n" ? "" : notes);
}

OpJson NumberOrNull(const std::optional<double>& value) {
  return value ? OpJson(*value) : OpJson(nullptr);
}

OpJson SubjectsJson(const OpReport& report) {
  OpJson subjects = OpJson::array();
  for (size_t i = 0; i < report.subjects.size(); ++i) {
    const OpFacts& facts = report.subjects[i];
    subjects.push_back(
        {{"device", facts.name},
         {"card", facts.card},
         {"is_simulated", facts.is_stated},
         {"in_cache", facts.in_cache},
         {"num_copies", facts.num_copies},
         {"weight_bytes", facts.num_bytes},
         {"roof_gb_per_s", NumberOrNull(facts.roof_gb_per_s)},
         {"sparse_wins_from", NumberOrNull(SparseWinsFrom(report, i))}});
  }
  return subjects;
}

OpJson SparseJson(const OpReport& report, const OpSparseRow& row) {
  return {{"device", report.subjects[row.subject].name},
          {"sparsity", NumberOrNull(row.sparsity)},
          {"n_neurons", row.num_neurons},
          {"seconds", row.seconds},
          {"of_dense", row.seconds / row.dense_seconds},
          {"bytes", row.num_bytes},
          {"gb_per_s", row.gb_per_s()},
          {"percent_of_bound", NumberOrNull(PercentOfBound(report, row))}};
}

OpJson MoveJson(const OpReport& report, const OpMoveRow& row) {
  const std::optional<double> sum = row.sum();
  return {{"device", report.subjects[row.subject].name},
          {"share", row.share},
          {"n_neurons", row.num_neurons},
          {"batch", row.batch},
          {"in_place_seconds", row.in_place_seconds},
          {"move_seconds", NumberOrNull(row.move_seconds)},
          {"compute_seconds", NumberOrNull(row.compute_seconds)},
          {"sum_seconds", NumberOrNull(sum)}};
}

std::string OpReportJson(const OpReport& report) {
  OpJson sparse = OpJson::array(), moves = OpJson::array();
  for (const OpSparseRow& row : report.sparse) {
    sparse.push_back(SparseJson(report, row));
  }
  for (const OpMoveRow& row : report.moves) {
    moves.push_back(MoveJson(report, row));
  }
  const OpJson all = {{"build_commit", report.build},
                      {"cpu_info", report.cpu},
                      {"isa", report.isa},
                      {"type", NameOf(report.shape.dtype)},
                      {"width", report.shape.width},
                      {"n_neurons", report.shape.num_neurons},
                      {"rounds", report.rounds},
                      {"seed", report.seed},
                      {"most_bytes", report.most_bytes},
                      {"devices", SubjectsJson(report)},
                      {"sparse", sparse},
                      {"move", moves}};
  // Names of CPUs and cards are any bytes; JSON is UTF-8.
  return all.dump(2, ' ', false, OpJson::error_handler_t::replace) + "\n";
}

std::string CsvNumber(const std::optional<double>& value) {
  return value ? fmt::format("{:.9g}", *value) : "";
}

std::string OpReportCsv(const OpReport& report) {
  std::string out =
      "what,device,sparsity,share,n_neurons,batch,seconds,dense_seconds,bytes,"
      "percent_of_bound,move_seconds,compute_seconds\n";
  for (const OpSparseRow& row : report.sparse) {
    out +=
        fmt::format("{},{},{},,{},1,{:.9g},{:.9g},{},{},,\n",
                    row.sparsity ? "sparse" : "dense",
                    report.subjects[row.subject].name, CsvNumber(row.sparsity),
                    row.num_neurons, row.seconds, row.dense_seconds,
                    row.num_bytes, CsvNumber(PercentOfBound(report, row)));
  }
  for (const OpMoveRow& row : report.moves) {
    out += fmt::format("move,{},,{:.9g},{},{},{:.9g},,,,{},{}\n",
                       report.subjects[row.subject].name, row.share,
                       row.num_neurons, row.batch, row.in_place_seconds,
                       CsvNumber(row.move_seconds),
                       CsvNumber(row.compute_seconds));
  }
  return out;
}

}  // namespace

std::string FormatOp(const OpReport& report, BenchFormat format) {
  switch (format) {
    case BenchFormat::kMarkdown:
      return FormatSparse(report) + FormatWins(report) + FormatMoves(report);
    case BenchFormat::kJson:
      return OpReportJson(report);
    case BenchFormat::kCsv:
      return OpReportCsv(report);
  }
  return {};
}

}  // namespace thermocline::bench

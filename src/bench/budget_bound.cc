#include "bench/budget_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/units.h"
#include "bench/samples.h"

namespace thermocline::bench {
namespace {

// As the table's P50.
double P50Of(std::vector<double> samples) {
  const double shares[] = {0.5};
  return PercentilesOf(std::move(samples), shares).front();
}

template <typename Value>
double P50OverTokens(std::span<const StreamedToken> tokens, Value value) {
  std::vector<double> samples;
  for (const StreamedToken& token : tokens) samples.push_back(value(token));
  return P50Of(std::move(samples));
}

double TokenSeconds(std::span<const StreamedToken> tokens) {
  return P50OverTokens(
      tokens, [](const StreamedToken& token) { return token.seconds; });
}

const BudgetRow* FastestInMemory(std::span<const BudgetRow> rows) {
  const BudgetRow* fastest = nullptr;
  for (const BudgetRow& row : rows) {
    if (!row.is_in_memory || row.tokens.empty()) continue;
    if (fastest == nullptr ||
        TokenSeconds(row.tokens) < TokenSeconds(fastest->tokens)) {
      fastest = &row;
    }
  }
  return fastest;
}

std::string NameOfRow(const BudgetRow& row) {
  const std::string ram = FormatBytes(row.ram);
  return row.storage.empty() ? ram : fmt::format("{} {}", ram, row.storage);
}

std::string DescribeReplay(const BudgetRow& row, const TokenBound& bound) {
  std::string line = fmt::format(
      "{}: reads alone by {}, {} at once{}; {:.2f} ms in turns\n",
      NameOfRow(row), row.replay->reader, row.replay->depth,
      row.replay->is_direct ? "" : ", from the page cache, not the drive",
      1e3 * bound.in_turns_seconds);
  if (row.replay->seconds.size() < row.tokens.size()) {
    line += fmt::format("{}: of the first {} of {} tokens\n", NameOfRow(row),
                        row.replay->seconds.size(), row.tokens.size());
  }
  return line;
}

}  // namespace

double TokenBound::seconds() const {
  return std::max(reads_seconds, compute_seconds);
}

std::optional<TokenBound> BoundOf(const BudgetRow& row,
                                  std::span<const BudgetRow> all) {
  if (!row.replay || row.replay->seconds.empty()) return std::nullopt;
  const std::span<const StreamedToken> tokens =
      std::span(row.tokens).first(row.replay->seconds.size());
  TokenBound bound = {.token_seconds = TokenSeconds(tokens),
                      .reads_seconds = P50Of(row.replay->seconds),
                      .in_turns_seconds = P50Of(row.replay->in_turns_seconds),
                      .in_memory = FastestInMemory(all)};
  bound.compute_seconds =
      bound.in_memory != nullptr
          ? TokenSeconds(bound.in_memory->tokens)
          : P50OverTokens(tokens, [](const StreamedToken& token) {
              return token.seconds - token.waited_seconds;
            });
  return bound;
}

std::string DescribeBounds(std::span<const BudgetRow> rows) {
  std::string out;
  const BudgetRow* in_memory = nullptr;
  for (const BudgetRow& row : rows) {
    if (const auto bound = BoundOf(row, rows)) {
      in_memory = bound->in_memory;
      out += DescribeReplay(row, *bound);
    } else if (!row.unit.empty()) {
      out +=
          fmt::format("{}: its reads could not be replayed\n", NameOfRow(row));
    } else if (row.storage == "mmap") {
      out += fmt::format(
          "{}: the system reads, which is not known and not replayed\n",
          NameOfRow(row));
    }
  }
  const bool any = std::ranges::any_of(
      rows, [](const BudgetRow& row) { return row.replay.has_value(); });
  if (!any) return out;
  return out +
         fmt::format("x bound: P50 by the longer of reads alone and {}\n",
                     in_memory != nullptr
                         ? fmt::format("P50 with all in memory ({})",
                                       NameOfRow(*in_memory))
                         : "the run's own time less its waits for reads (no "
                           "budget holds everything)");
}

}  // namespace thermocline::bench

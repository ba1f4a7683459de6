#include "base/timeline.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

namespace thermocline {
namespace {

int64_t Nanoseconds(double seconds) {
  return static_cast<int64_t>(std::llround(seconds * 1e9));
}

}  // namespace

Timeline::Row Timeline::AddRow(std::string_view process,
                               std::string_view name) {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (rows_[i].process == process && rows_[i].name == name) {
      return static_cast<Row>(i);
    }
  }
  rows_.push_back({std::string(process), std::string(name)});
  return static_cast<Row>(rows_.size() - 1);
}

void Timeline::Add(Row row, const Span& span) {
  const int64_t begin_ns = Nanoseconds(span.begin_s);
  const int64_t end_ns = std::max(begin_ns, Nanoseconds(span.end_s));
  const std::lock_guard lock(mutex_);
  end_ns_ = std::max(end_ns_, end_ns);
  if (spans_.size() >= spans_max_) {
    ++num_dropped_;
    return;
  }
  auto name = name_indices_.find(span.name);
  if (name == name_indices_.end()) {
    const auto index = static_cast<uint32_t>(names_.size());
    names_.emplace_back(span.name);
    name = name_indices_.emplace(names_.back(), index).first;
  }
  spans_.push_back(
      {.begin_ns = begin_ns,
       .end_ns = end_ns,
       .num_bytes = span.num_bytes.value_or(kNoBytes),
       .row = static_cast<uint32_t>(row),
       .name_idx = name->second,
       .number = static_cast<int32_t>(std::clamp<int64_t>(
           span.number, -1, std::numeric_limits<int32_t>::max())),
       .layer = span.layer,
       .wait_share = static_cast<float>(span.wait_share.value_or(-1.0))});
}

void Timeline::Drop() {
  const std::lock_guard lock(mutex_);
  ++num_dropped_;
}

double Timeline::UseClock(std::function<double(double origin_s)> clock) {
  const double origin_s = end_s();
  is_virtual_ = true;
  clock_ = [clock = std::move(clock), origin_s] { return clock(origin_s); };
  return origin_s;
}

void Timeline::HoldClock() {
  clock_ = [at = Now()] { return at; };
}

double Timeline::end_s() const {
  const std::lock_guard lock(mutex_);
  return static_cast<double>(end_ns_) / 1e9;
}

std::vector<Timeline::RowName> Timeline::rows() const {
  const std::lock_guard lock(mutex_);
  return rows_;
}

std::vector<const Timeline::Kept*> Timeline::Sorted() const {
  const std::lock_guard lock(mutex_);
  std::vector<size_t> order(spans_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t i, size_t j) {
    const Kept& a = spans_[i];
    const Kept& b = spans_[j];
    return std::tie(a.row, a.begin_ns, i) < std::tie(b.row, b.begin_ns, j);
  });
  std::vector<const Kept*> sorted;
  sorted.reserve(order.size());
  for (const size_t i : order) sorted.push_back(&spans_[i]);
  return sorted;
}

uint64_t Timeline::num_dropped() const {
  const std::lock_guard lock(mutex_);
  return num_dropped_;
}

std::vector<RowUse> UseOfRows(const std::vector<const Timeline::Kept*>& sorted,
                              size_t num_rows) {
  std::vector<RowUse> uses(num_rows);
  int64_t first_ns = sorted.empty() ? 0 : std::numeric_limits<int64_t>::max();
  int64_t last_ns = 0;
  for (const Timeline::Kept* at : sorted) {
    const Timeline::Kept& span = *at;
    first_ns = std::min(first_ns, span.begin_ns);
    last_ns = std::max(last_ns, span.end_ns);
  }
  std::vector<int64_t> done_ns(num_rows, first_ns);
  const auto add_gap = [&](size_t row, int64_t until_ns) {
    const int64_t gap_ns = until_ns - done_ns[row];
    if (gap_ns <= 0) return;
    RowUse& use = uses[row];
    use.idle_ns += gap_ns;
    use.longest_gap_ns = std::max(use.longest_gap_ns, gap_ns);
    ++use.num_gaps;
  };
  for (const Timeline::Kept* at : sorted) {
    const Timeline::Kept& span = *at;
    RowUse& use = uses[span.row];
    int64_t& done = done_ns[span.row];
    add_gap(span.row, span.begin_ns);
    ++use.num_spans;
    if (span.num_bytes != Timeline::kNoBytes) use.num_bytes += span.num_bytes;
    use.busy_ns +=
        std::max<int64_t>(span.end_ns - std::max(done, span.begin_ns), 0);
    done = std::max(done, span.end_ns);
  }
  for (size_t row = 0; row < num_rows; ++row) add_gap(row, last_ns);
  return uses;
}

}  // namespace thermocline

// What ran when: spans of time in rows, for somebody to draw.
#ifndef THERMOCLINE_BASE_TIMELINE_H_
#define THERMOCLINE_BASE_TIMELINE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace thermocline {

// Threads  any, at any time; but UseClock, HoldClock and the readers at the end
//          only while nobody adds.
// Cost     a lock and 48 bytes a span; no more than `spans_max` are kept.
class Timeline {
 public:
  static constexpr size_t kSpansMax = size_t{4} << 20;  // 192 MiB

  enum class Row : uint32_t {};

  struct Span {
    std::string_view name;  // copied
    double begin_s = 0.0, end_s = 0.0;
    int64_t number = -1;  // behind the name: 13 of "token 13"; < 0: none
    int32_t layer = -1;   // < 0: of none
    std::optional<uint64_t> num_bytes;
    std::optional<double> wait_share;  // of a stage, for its slowest thread
  };

  struct RowName {
    std::string process;
    std::string name;
  };

  // As it is kept: times in whole nanoseconds, so that what one span ends with
  // the next one can begin with.
  struct Kept {
    int64_t begin_ns, end_ns;
    uint64_t num_bytes;  // kNoBytes: unknown
    uint32_t row, name_idx;
    int32_t number, layer;
    float wait_share;  // < 0: unknown
  };
  static_assert(sizeof(Kept) == 48);
  static constexpr uint64_t kNoBytes = UINT64_MAX;

  explicit Timeline(size_t spans_max = kSpansMax) : spans_max_(spans_max) {}
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // The row of that name in that process; made if it is not there. Rows and
  // processes are drawn in the order in which they were first asked for.
  Row AddRow(std::string_view process, std::string_view name);

  // A span that takes no time is one; of one that ends before it begins the end
  // is the beginning. Beyond spans_max they are counted, not kept.
  void Add(Row row, const Span& span);

  // A span that is not known, but that there was one.
  void Drop();

  // Seconds; a stopwatch that began with the timeline, if nobody else's clock
  // is used.
  double Now() const { return clock_ ? clock_() : watch_.Seconds(); }
  // Time that is not the wall's. It goes on from end_s(), which is returned: a
  // second machine's time follows the first one's.
  double UseClock(std::function<double(double origin_s)> clock);
  // Stands still: whose clock was used is no more.
  void HoldClock();
  // Whether another clock than the wall's was ever used.
  bool is_virtual() const { return is_virtual_; }
  double end_s() const;  // the latest end of a span, 0 without one

  std::vector<RowName> rows() const;
  const std::string& name(const Kept& span) const {
    return names_[span.name_idx];
  }
  // By row, then by beginning, then as they were added. Good until the next
  // Add.
  std::vector<const Kept*> Sorted() const;
  uint64_t num_dropped() const;

 private:
  const size_t spans_max_;
  Stopwatch watch_;
  std::function<double()> clock_;
  bool is_virtual_ = false;

  mutable std::mutex mutex_;
  std::vector<RowName> rows_;
  std::deque<std::string> names_;
  std::map<std::string, uint32_t, std::less<>> name_indices_;
  std::deque<Kept> spans_;
  int64_t end_ns_ = 0;
  uint64_t num_dropped_ = 0;
};

// How much of the time between the first beginning and the last end, of all
// rows, something of a row went on.
struct RowUse {
  uint64_t num_spans = 0;
  uint64_t num_bytes = 0;
  int64_t busy_ns = 0;
  int64_t idle_ns = 0;
  uint64_t num_gaps = 0;  // of a nanosecond or more, at the ends too
  int64_t longest_gap_ns = 0;
};

// For each row. `sorted` is Timeline::Sorted()'s.
std::vector<RowUse> UseOfRows(const std::vector<const Timeline::Kept*>& sorted,
                              size_t num_rows);

}  // namespace thermocline

#endif  // THERMOCLINE_BASE_TIMELINE_H_

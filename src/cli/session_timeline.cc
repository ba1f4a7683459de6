#include "cli/session_timeline.h"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/units.h"
#include "cli/flags.h"
#include "cli/output_file.h"
#include "cli/standard_io.h"
#include "os/file.h"

namespace thermocline::cli {
namespace {

using Kept = Timeline::Kept;

// As a JSON string; bytes that are no UTF-8 are replaced.
std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false,
                                   nlohmann::json::error_handler_t::replace);
}

// What viewers number processes and threads by: 1 and on.
struct TraceRow {
  size_t pid = 0, tid = 0;
  bool is_first = false;  // of its process
};

std::vector<TraceRow> NumberRows(const std::vector<Timeline::RowName>& rows) {
  std::vector<TraceRow> numbers;
  std::vector<std::string> processes;
  std::vector<size_t> num_threads;
  for (const Timeline::RowName& row : rows) {
    size_t i = 0;
    while (i < processes.size() && processes[i] != row.process) ++i;
    const bool is_first = i == processes.size();
    if (is_first) {
      processes.push_back(row.process);
      num_threads.push_back(0);
    }
    numbers.push_back({i + 1, ++num_threads[i], is_first});
  }
  return numbers;
}

// Microseconds with all of the nanoseconds.
std::string Micros(int64_t ns) {
  return fmt::format("{}.{:03}", ns / 1000, ns % 1000);
}

class TimelineText {
 public:
  using Sink = std::function<Status(std::string_view)>;

  TimelineText(const Timeline& timeline, const Sink& write)
      : timeline_(timeline),
        write_(write),
        rows_(timeline.rows()),
        numbers_(NumberRows(rows_)),
        spans_(timeline.Sorted()) {}

  Status Write() {
    text_ = "{\"displayTimeUnit\":\"ns\",\n\"otherData\":";
    AddSummary();
    text_ += ",\n\"traceEvents\":[";
    for (size_t i = 0; i < rows_.size(); ++i) AddNames(i);
    for (const Kept* span : spans_) {
      AddSpan(*span);
      if (text_.size() >= kPieceBytes) TC_RETURN_IF_ERROR(Flush());
    }
    text_ += "\n]}\n";
    return Flush();
  }

 private:
  static constexpr size_t kPieceBytes = 1 << 20;

  Status Flush() {
    TC_RETURN_IF_ERROR(write_(text_));
    text_.clear();
    return {};
  }

  template <typename... Args>
  void Append(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format,
                   std::forward<Args>(args)...);
  }

  void AddSummary() {
    Append("{{\"clock\":\"{}\",\"dropped_spans\":{},\"rows\":[",
           timeline_.is_virtual() ? "virtual" : "wall",
           timeline_.num_dropped());
    const std::vector<RowUse> uses = UseOfRows(spans_, rows_.size());
    for (size_t i = 0; i < rows_.size(); ++i) {
      const RowUse& use = uses[i];
      Append(
          "{}\n{{\"process\":{},\"row\":{},\"spans\":{},\"bytes\":{},"
          "\"busy_us\":{},\"idle_us\":{},\"gaps\":{},\"longest_gap_us\":{}}}",
          i == 0 ? "" : ",", Quoted(rows_[i].process), Quoted(rows_[i].name),
          use.num_spans, use.num_bytes, Micros(use.busy_ns),
          Micros(use.idle_ns), use.num_gaps, Micros(use.longest_gap_ns));
    }
    text_ += "]}";
  }

  void AddName(const char* kind, size_t row, const std::string& name) {
    Separate();
    Append(
        "{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"{}_name\",\"args\":{{"
        "\"name\":{}}}}}",
        numbers_[row].pid, numbers_[row].tid, kind, Quoted(name));
  }

  void AddOrder(const char* kind, size_t row, size_t order) {
    Separate();
    Append(
        "{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"{}_sort_index\","
        "\"args\":{{\"sort_index\":{}}}}}",
        numbers_[row].pid, numbers_[row].tid, kind, order);
  }

  void AddNames(size_t row) {
    if (numbers_[row].is_first) {
      AddName("process", row, rows_[row].process);
      AddOrder("process", row, numbers_[row].pid);
    }
    AddName("thread", row, rows_[row].name);
    AddOrder("thread", row, numbers_[row].tid);
  }

  void AddSpan(const Kept& span) {
    std::string name = timeline_.name(span);
    if (span.number >= 0) name += fmt::format(" {}", span.number);
    Separate();
    Append(
        "{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"name\":{},\"ts\":{},\"dur\":{}",
        numbers_[span.row].pid, numbers_[span.row].tid, Quoted(name),
        Micros(span.begin_ns), Micros(span.end_ns - span.begin_ns));
    // Viewers that know colours by name draw it grey.
    if (name == "waiting") text_ += ",\"cname\":\"grey\"";
    AddArgs(span);
    text_ += "}";
  }

  void AddArgs(const Kept& span) {
    std::string args;
    const auto add = [&](const std::string& arg) {
      args += (args.empty() ? "" : ",") + arg;
    };
    if (span.layer >= 0) add(fmt::format("\"layer\":{}", span.layer));
    if (span.num_bytes != Timeline::kNoBytes) {
      add(fmt::format("\"bytes\":{}", span.num_bytes));
      const int64_t ns = span.end_ns - span.begin_ns;
      if (ns > 0) {
        add(fmt::format(
            "\"gb_per_s\":{:.3f}",
            static_cast<double>(span.num_bytes) / static_cast<double>(ns)));
      }
    }
    if (span.wait_share >= 0.0F) {
      add(fmt::format("\"wait_share\":{:.3f}", span.wait_share));
    }
    if (!args.empty()) Append(",\"args\":{{{}}}", args);
  }

  // One event a line.
  void Separate() {
    text_ += has_events_ ? ",\n" : "\n";
    has_events_ = true;
  }

  const Timeline& timeline_;
  const Sink& write_;
  std::vector<Timeline::RowName> rows_;
  std::vector<TraceRow> numbers_;
  std::vector<const Kept*> spans_;
  std::string text_;
  bool has_events_ = false;
};

}  // namespace

Status WriteTimeline(const Timeline& timeline,
                     const std::function<Status(std::string_view)>& write) {
  return TimelineText(timeline, write).Write();
}

void SessionTimeline::AddTo(engine::SessionOptions& options) {
  options.timeline = &timeline_;
  sim_ = device::AsSim(options.device.get());
  if (sim_ != nullptr && options.work == nullptr) options.work = this;
}

void SessionTimeline::Read(compute::Stage /*stage*/, uint64_t num_bytes) {
  sim_->HostWork(num_bytes);
}

Status SessionTimeline::Check(const std::vector<std::string>& inputs,
                              std::vector<std::string> other_outputs) const {
  other_outputs.push_back(path_);
  return CheckOutputs(other_outputs, inputs);
}

Status SessionTimeline::Write() const {
  TC_ASSIGN_OR_RETURN(const auto file, os::AtomicFile::Create(path_));
  TC_RETURN_IF_ERROR(WriteTimeline(
      timeline_, [&](std::string_view text) { return file->Write(text); }));
  TC_RETURN_IF_ERROR(file->Commit());
  WriteStderr(Wrote(path_) + "\n");
  if (timeline_.num_dropped() > 0) {
    LogWarning("{}: {} more than it holds are left out", path_,
               Plural(timeline_.num_dropped(), "span"));
  }
  return {};
}

Action WithTimeline(std::shared_ptr<SessionTimeline> timeline,
                    std::vector<std::string> inputs,
                    std::vector<std::string> other_outputs, Action action) {
  if (timeline == nullptr) return action;
  return [timeline = std::move(timeline), inputs = std::move(inputs),
          others = std::move(other_outputs),
          action = std::move(action)]() -> Status {
    TC_RETURN_IF_ERROR(timeline->Check(inputs, others));
    const Status status = action();
    // A command that failed before anything ran replaces nothing.
    const bool has_run =
        status.has_value() || timeline->timeline()->end_s() > 0;
    const Status written = has_run ? timeline->Write() : Status();
    TC_RETURN_IF_ERROR(status);
    return written;
  };
}

void AddTimelineFlag(CLI::App& app,
                     std::shared_ptr<SessionTimeline>& timeline) {
  AddParsed(app, "--timeline", "FILE",
            "Also writes what ran when, as trace events (JSON): stages, a "
            "device's streams, copies",
            [&timeline](const std::string& text) -> Status {
              if (text.empty()) {
                return Fail(ErrorCode::kInvalidArgument, "the path is empty");
              }
              timeline = std::make_shared<SessionTimeline>(text);
              return {};
            });
}

}  // namespace thermocline::cli

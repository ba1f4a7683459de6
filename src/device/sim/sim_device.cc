#include "device/sim/sim_device.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <mutex>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "base/random.h"
#include "device/sim/sim_timeline.h"
#include "device/sim/sim_worker.h"

namespace thermocline::device {
namespace {

// Work is done up to a place in a stream: so many commands of it.
struct SimPlace {
  size_t stream_idx = 0;
  uint64_t num_done = 0;  // 0: nothing
};

struct SimRecord {
  size_t event_idx;
};
struct SimWait {
  size_t event_idx;
  SimPlace until;  // told when it is enqueued
};
struct SimLaunch {};  // what a graph takes as a whole

struct SimCommand {
  std::variant<SimWork, SimRecord, SimWait, SimLaunch> what;
  double latency = 0.0;  // of an operation
};

struct SimStream {
  double time = 0.0;  // when all that is done of it is
  uint64_t num_enqueued = 0;
  uint64_t num_done = 0;
  std::deque<SimCommand> pending;  // the others
  bool captures = false;
  std::vector<SimCommand> captured;
};

struct SimEvent {
  double time = 0.0;
  SimPlace place;  // of the last Record
};

class Sim final : public SimDevice {
 public:
  Sim(const Machine& machine, const SimOptions& options)
      : machine_(machine), options_(options), worker_(machine, options) {
    if (options_.timeline == nullptr) return;
    const double origin_s = options_.timeline->UseClock(
        [this](double origin) { return origin + now(); });
    timeline_.emplace(options_.timeline, kId, origin_s);
    time().set_timeline(&*timeline_);
  }
  ~Sim() override {
    if (options_.timeline != nullptr) options_.timeline->HoldClock();
  }

  Result<DeviceInfo> Info() const override {
    const std::lock_guard lock(mutex_);
    TC_RETURN_IF_ERROR(Enter("Info"));
    const SimMemory& memory = worker_.memory();
    const uint64_t total = memory.device_bytes();
    return DeviceInfo{
        .id = kId,
        .name = machine_.name,
        .total_bytes = total,
        .free_bytes = total - memory.allocated_bytes(MemoryKind::kDevice),
        .is_simulated = true};
  }

  const RowLayout& layout() const override { return worker_.layout(); }

  Result<Buffer> Allocate(size_t num_bytes, MemoryKind kind,
                          std::string_view what) override {
    const std::lock_guard lock(mutex_);
    TC_RETURN_IF_ERROR(Enter("Allocate"));
    auto data = worker_.memory().Allocate(num_bytes, kind, what);
    if (!data.has_value()) return Annotate(kId, data.error());
    return Buffer(this, kind, *data, num_bytes);
  }

  uint64_t allocated_bytes(MemoryKind kind) const override {
    const std::lock_guard lock(mutex_);
    return worker_.memory().allocated_bytes(kind);
  }
  uint64_t peak_bytes(MemoryKind kind) const override {
    const std::lock_guard lock(mutex_);
    return worker_.memory().peak_bytes(kind);
  }

  Result<Stream> MakeStream(Priority /*priority*/) override {
    const std::lock_guard lock(mutex_);
    TC_RETURN_IF_ERROR(Enter("MakeStream"));
    streams_.emplace_back();
    return static_cast<Stream>(streams_.size() - 1);
  }

  Result<Event> MakeEvent() override {
    const std::lock_guard lock(mutex_);
    TC_RETURN_IF_ERROR(Enter("MakeEvent"));
    events_.emplace_back();
    return static_cast<Event>(events_.size() - 1);
  }

  Status Copy(Stream stream, void* to, const void* from,
              size_t num_bytes) override {
    return Take("Copy", stream, SimWork(SimCopy{to, from, num_bytes}));
  }

  Status Fill(Stream stream, void* to, uint8_t value,
              size_t num_bytes) override {
    return Take("Fill", stream, SimWork(SimFill{to, value, num_bytes}));
  }

  Status Run(Stream stream, const kernels::DeviceOp& op) override {
    return Take("Run", stream, SimWork(op));
  }

  Status Record(Stream stream, Event event) override {
    return Take("Record", stream, SimRecord{static_cast<size_t>(event)}, event);
  }

  Status Wait(Stream stream, Event event) override {
    return Take("Wait", stream, SimWait{static_cast<size_t>(event), {}}, event);
  }

  Status BeginGraph(Stream stream) override {
    const std::lock_guard lock(mutex_);
    TC_RETURN_IF_ERROR(Enter("BeginGraph"));
    TC_ASSIGN_OR_RETURN(SimStream* const of, Find("BeginGraph", stream));
    if (of->captures) return Wrong("BeginGraph", kInGraph);
    of->captures = true;
    return {};
  }

  Result<Graph> EndGraph(Stream stream) override {
    const std::lock_guard lock(mutex_);
    TC_RETURN_IF_ERROR(Enter("EndGraph"));
    TC_ASSIGN_OR_RETURN(SimStream* const of, Find("EndGraph", stream));
    if (!of->captures) return Wrong("EndGraph", "the stream began no graph");
    of->captures = false;
    graphs_.push_back(std::exchange(of->captured, {}));
    return static_cast<Graph>(graphs_.size() - 1);
  }

  Status Launch(Stream stream, Graph graph) override {
    const std::lock_guard lock(mutex_);
    TC_RETURN_IF_ERROR(Enter("Launch"));
    TC_ASSIGN_OR_RETURN(SimStream* const of, Find("Launch", stream));
    if (of->captures) return Wrong("Launch", "a graph is no part of a graph");
    const size_t graph_idx = static_cast<size_t>(graph);
    if (graph_idx >= graphs_.size()) return Wrong("Launch", "no such graph");
    TC_RETURN_IF_ERROR(Enqueue(*of, {.what = SimLaunch{}}));
    for (const SimCommand& command : graphs_[graph_idx]) {
      TC_RETURN_IF_ERROR(Enqueue(*of, command));
    }
    return {};
  }

  Status Synchronize(Event event) override {
    const std::lock_guard lock(mutex_);
    TC_RETURN_IF_ERROR(Enter("Synchronize"));
    TC_ASSIGN_OR_RETURN(SimEvent* const of, Find("Synchronize", event));
    TC_RETURN_IF_ERROR(DoUntil(of->place));
    time().Synchronize(of->time);
    return {};
  }

  Status Synchronize(Stream stream) override {
    const std::lock_guard lock(mutex_);
    TC_RETURN_IF_ERROR(Enter("Synchronize"));
    TC_ASSIGN_OR_RETURN(SimStream* const of, Find("Synchronize", stream));
    if (of->captures) return Wrong("Synchronize", kInGraph);
    TC_RETURN_IF_ERROR(DoUntil(EndOf(static_cast<size_t>(stream))));
    time().Synchronize(of->time);
    return {};
  }

  Result<bool> IsReached(Event event) override {
    const std::lock_guard lock(mutex_);
    TC_RETURN_IF_ERROR(Enter("IsReached"));
    TC_ASSIGN_OR_RETURN(SimEvent* const of, Find("IsReached", event));
    time().Synchronize(time().now());
    // Late work is done when it is asked for, but was not there yet.
    const bool is_done = IsDone(of->place);
    TC_RETURN_IF_ERROR(DoUntil(of->place));
    return is_done && of->time <= time().now();
  }

  void HostWork(uint64_t num_bytes) override {
    const std::lock_guard lock(mutex_);
    time().HostWork(num_bytes);
  }
  void HostSeconds(double seconds) override {
    const std::lock_guard lock(mutex_);
    time().HostSeconds(seconds);
  }
  double now() const override {
    const std::lock_guard lock(mutex_);
    return worker_.time().now();
  }
  SimAccounts accounts() const override {
    const std::lock_guard lock(mutex_);
    return worker_.time().accounts();
  }
  const Machine& machine() const override { return machine_; }
  uint64_t num_calls() const override {
    const std::lock_guard lock(mutex_);
    return num_calls_;
  }

 private:
  static constexpr const char* kId = "sim0";
  static constexpr const char* kInGraph = "the stream has begun a graph";

  VirtualTime& time() { return worker_.time(); }

  // As a driver does, it first ends all work, which may use the memory. What
  // fails there has nobody to be told.
  void Free(MemoryKind kind, std::byte* data, size_t num_bytes) override {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < streams_.size(); ++i) {
      while (!DoUntil(EndOf(i)).has_value()) {
      }
    }
    worker_.memory().Free(kind, data, num_bytes);
  }

  static tl::unexpected<Error> Wrong(const char* call, std::string_view what) {
    return Fail(ErrorCode::kInvalidArgument, "{}: {}: {}", kId, call, what);
  }

  // Counts a call, and fails where it is to fail.
  Status Enter(const char* call) const {
    ++num_calls_;
    if (options_.lose_at != 0 && num_calls_ >= options_.lose_at) {
      return Fail(ErrorCode::kIo, "{}: device lost", kId);
    }
    if (num_calls_ == options_.fail_call) {
      return Fail(options_.error, "{}: {} failed, as call {} was to", kId, call,
                  num_calls_);
    }
    return {};
  }

  Result<SimStream*> Find(const char* call, Stream stream) {
    const size_t stream_idx = static_cast<size_t>(stream);
    if (stream_idx >= streams_.size()) return Wrong(call, "no such stream");
    return &streams_[stream_idx];
  }

  Result<SimEvent*> Find(const char* call, Event event) {
    const size_t event_idx = static_cast<size_t>(event);
    if (event_idx >= events_.size()) return Wrong(call, "no such event");
    return &events_[event_idx];
  }

  // From a call: into the stream, or the graph that it has begun.
  template <typename What>
  Status Take(const char* call, Stream stream, const What& what,
              std::optional<Event> event = std::nullopt) {
    const std::lock_guard lock(mutex_);
    TC_RETURN_IF_ERROR(Enter(call));
    if (event.has_value()) TC_RETURN_IF_ERROR(Find(call, *event));
    TC_ASSIGN_OR_RETURN(SimStream* const of, Find(call, stream));
    if (of->captures && event.has_value()) {
      return Wrong(call, "an event is no part of a graph");
    }
    if (!of->captures) {
      return Enqueue(*of, {.what = what, .latency = machine_.launch_latency});
    }
    of->captured.push_back(
        {.what = what, .latency = machine_.graph_op_latency});
    return {};
  }

  Status Enqueue(SimStream& stream, SimCommand command) {
    const SimPlace place = {static_cast<size_t>(&stream - streams_.data()),
                            ++stream.num_enqueued};
    if (const auto* record = std::get_if<SimRecord>(&command.what)) {
      events_[record->event_idx].place = place;
    } else if (auto* wait = std::get_if<SimWait>(&command.what)) {
      wait->until = events_[wait->event_idx].place;
    }
    stream.pending.push_back(command);
    if (options_.is_late) return {};
    return DoUntil(place);
  }

  SimPlace EndOf(size_t stream_idx) const {
    return {stream_idx, streams_[stream_idx].num_enqueued};
  }

  bool IsDone(const SimPlace& place) const {
    return place.num_done == 0 ||
           streams_[place.stream_idx].num_done >= place.num_done;
  }

  // The error is that of the first command that fails, which counts as done.
  Status DoUntil(const SimPlace& place) {
    while (!IsDone(place)) {
      SimStream& stream = streams_[place.stream_idx];
      const auto* wait = std::get_if<SimWait>(&stream.pending.front().what);
      if (wait != nullptr) TC_RETURN_IF_ERROR(DoUntil(wait->until));
      const SimCommand command = stream.pending.front();
      stream.pending.pop_front();
      ++stream.num_done;
      TC_RETURN_IF_ERROR(timeline_ ? DoAndDraw(place.stream_idx, command)
                                   : Do(stream, command));
    }
    return {};
  }

  Status Do(SimStream& stream, const SimCommand& command) {
    if (const auto* work = std::get_if<SimWork>(&command.what)) {
      const auto end = worker_.Do(*work, stream.time, command.latency);
      if (!end.has_value()) return Annotate(kId, end.error());
      stream.time = *end;
    } else if (const auto* record = std::get_if<SimRecord>(&command.what)) {
      events_[record->event_idx].time = std::max(stream.time, time().now());
    } else if (const auto* wait = std::get_if<SimWait>(&command.what)) {
      stream.time = std::max(stream.time, events_[wait->event_idx].time);
    } else {
      stream.time =
          std::max(stream.time, time().now()) + machine_.launch_latency;
    }
    return {};
  }

  // What takes time is a span, from when the stream and the host had come to
  // it.
  Status DoAndDraw(size_t stream_idx, const SimCommand& command) {
    SimStream& stream = streams_[stream_idx];
    const double begin = std::max(stream.time, time().now());
    const SimAccounts before = time().accounts();
    timeline_->SetName(NameOf(command));
    TC_RETURN_IF_ERROR(Do(stream, command));
    timeline_->AddWork(stream_idx, begin, stream.time, before,
                       time().accounts());
    return {};
  }

  // Empty: takes no time.
  static std::string_view NameOf(const SimCommand& command) {
    if (std::holds_alternative<SimLaunch>(command.what)) return "launch";
    const auto* work = std::get_if<SimWork>(&command.what);
    if (work == nullptr) return "";
    if (std::holds_alternative<SimCopy>(*work)) return SimTimeline::kCopy;
    if (std::holds_alternative<SimFill>(*work)) return "fill";
    return ShortNameOf(std::get<kernels::DeviceOp>(*work));
  }

  mutable std::mutex mutex_;
  mutable uint64_t num_calls_ = 0;
  Machine machine_;
  SimOptions options_;
  SimWorker worker_;
  std::optional<SimTimeline> timeline_;
  std::vector<SimStream> streams_;
  std::vector<SimEvent> events_;
  std::vector<std::vector<SimCommand>> graphs_;
};

}  // namespace

SimOptions WithFault(SimOptions options, uint64_t seed, uint64_t num_calls) {
  constexpr ErrorCode kErrors[] = {ErrorCode::kResourceExhausted,
                                   ErrorCode::kIo, ErrorCode::kCorrupt};
  Random random(seed);
  const uint64_t call = 1 + random.Below(num_calls);
  const uint64_t kind = random.Below(std::size(kErrors) + 1);
  options.fail_call = options.lose_at = 0;
  if (kind == std::size(kErrors)) {
    options.lose_at = call;
  } else {
    options.fail_call = call;
    options.error = kErrors[kind];
  }
  return options;
}

SimDevice* AsSim(Device* device) { return dynamic_cast<SimDevice*>(device); }

std::unique_ptr<SimDevice> MakeSim(const Machine& machine,
                                   const SimOptions& options) {
  return std::make_unique<Sim>(machine, options);
}

}  // namespace thermocline::device

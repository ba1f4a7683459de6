// --timeline: a file of what ran when, for whoever draws trace events.
#ifndef THERMOCLINE_CLI_SESSION_TIMELINE_H_
#define THERMOCLINE_CLI_SESSION_TIMELINE_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/timeline.h"
#include "cli/commands.h"
#include "compute/stage_times.h"
#include "device/sim/sim_device.h"
#include "engine/runtime.h"

namespace thermocline::cli {

// As JSON, in pieces: docs/formats/timeline.md. The same spans give the same
// bytes. Errors are those of `write`.
Status WriteTimeline(const Timeline& timeline,
                     const std::function<Status(std::string_view)>& write);

// Of one command, whose sessions it outlives.
class SessionTimeline final : public compute::HostWork {
 public:
  // The host's rows are the first.
  explicit SessionTimeline(std::string path) : path_(std::move(path)) {
    (void)compute::StageTimeline(&timeline_);
  }

  const std::string& path() const { return path_; }
  Timeline* timeline() { return &timeline_; }

  // Has the session draw itself. A simulated device's clock is moved by what
  // its host reads, unless somebody does that already.
  void AddTo(engine::SessionOptions& options);
  void Read(compute::Stage stage, uint64_t num_bytes) override;

  // Nothing if the path is an input or another output, or cannot be written:
  // CheckOutputs' errors.
  Status Check(const std::vector<std::string>& inputs,
               std::vector<std::string> other_outputs) const;
  // WriteTimeline's text, in a file that appears whole.
  Status Write() const;

 private:
  std::string path_;
  Timeline timeline_;
  device::SimDevice* sim_ = nullptr;  // the last session's
};

// `action` with the file checked before and written after it, also where it was
// interrupted or failed on its way. Null: the action as it is.
// inputs, other_outputs: all files of the command.
Action WithTimeline(std::shared_ptr<SessionTimeline> timeline,
                    std::vector<std::string> inputs,
                    std::vector<std::string> other_outputs, Action action);

// --timeline.
void AddTimelineFlag(CLI::App& app, std::shared_ptr<SessionTimeline>& timeline);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_SESSION_TIMELINE_H_

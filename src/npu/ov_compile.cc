#include "npu/ov_compile.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "npu/ov_errors.h"
#include "os/start_thread.h"

namespace thermocline::npu {
namespace {

using Compiled = Result<OvOwned<OvCompiled>>;

constexpr std::string_view kTask = "compiling a graph";
constexpr auto kLookAgain = std::chrono::milliseconds(20);

// OpenVINO's and TBB's own exit handlers would take apart what such a thread
// works with, or what it still gives back when its compile is over.
void ExitWithout(int status, void* /*unused*/) {
  std::fflush(nullptr);
  _exit(status);
}

// Once a compile was left behind. Runs before the handlers of libraries that
// are loaded by now.
void GuardExit() {
  static const bool is_guarded = on_exit(ExitWithout, nullptr) == 0;
  (void)is_guarded;
}

// Between who waits and the thread.
struct Handshake {
  std::mutex mutex;
  std::condition_variable is_over;
  std::optional<Compiled> result;
  bool is_left_behind = false;
};

// Lets go of all that it owns, or hands it over.
void RunThread(std::shared_ptr<const OvJob> job,
               const std::shared_ptr<Handshake>& handshake) {
  const std::shared_ptr<const OvRuntime> runtime = job->runtime;
  Compiled compiled = CompileHere(*job);
  job.reset();
  const std::lock_guard lock(handshake->mutex);
  if (handshake->is_left_behind) return;
  handshake->result = std::move(compiled);
  handshake->is_over.notify_one();
}

// As many strings as C's variable arguments are given each time.
constexpr size_t kMostStrings = 20;
using Strings = std::array<const char*, kMostStrings>;

Strings StringsOf(const OvProperties& properties) {
  TC_CHECK(2 * properties.size() <= kMostStrings);
  Strings strings = {};
  size_t i = 0;
  for (const auto& [key, value] : properties) {
    strings[i++] = key.c_str();
    strings[i++] = value.c_str();
  }
  return strings;
}

template <size_t... kIdx>
int CallCompile(const OvJob& job, const OvModel* model, OvCompiled** compiled,
                std::index_sequence<kIdx...> /*unused*/) {
  const Strings strings = StringsOf(job.properties);
  const OvRuntime& runtime = *job.runtime;
  return runtime.api->core_compile(
      runtime.core.get(), model, job.device.plugin.c_str(),
      2 * job.properties.size(), compiled, strings[kIdx]...);
}

}  // namespace

Result<std::shared_ptr<const OvRuntime>> StartOv(const std::string& library) {
  TC_ASSIGN_OR_RETURN(std::shared_ptr<const OvApi> api, LoadOvApi(library));
  OvCore* core = nullptr;
  const int status = api->core_create(&core);
  if (status != 0) {
    return tl::unexpected(OvError(fmt::format("OpenVINO {}", api->version),
                                  "starting", LastWords(*api, status)));
  }
  auto runtime = std::make_shared<OvRuntime>();
  runtime->core = OvOwned<OvCore>(core, {api});
  runtime->library = api->path;
  runtime->api = std::move(api);
  return runtime;
}

Result<std::string> OvProperty(const OvRuntime& runtime,
                               const std::string& device,
                               const std::string& key) {
  const OvApi& api = *runtime.api;
  char* value = nullptr;
  const int status = api.core_property(runtime.core.get(), device.c_str(),
                                       key.c_str(), &value);
  if (status != 0 || value == nullptr) {
    return Fail(ErrorCode::kIo, "{}", LastWords(api, status));
  }
  std::string copy = value;
  api.free_text(value);
  return copy;
}

Result<OvOwned<OvTensor>> CopyWeights(const OvRuntime& runtime,
                                      std::span<const std::byte> bytes) {
  const OvApi& api = *runtime.api;
  // A tensor of nothing would have no memory.
  auto extent = static_cast<int64_t>(std::max(bytes.size(), size_t{1}));
  OvTensor* tensor = nullptr;
  void* data = nullptr;
  int status =
      api.tensor_create(api.NumberOf(Element::kU8), {1, &extent}, &tensor);
  OvOwned<OvTensor> owned(tensor, {runtime.api});
  if (status == 0) status = api.tensor_data(tensor, &data);
  if (status != 0) {
    return Fail(ErrorCode::kResourceExhausted,
                "no memory for {} bytes of a graph's weights: {}", bytes.size(),
                FirstLine(LastWords(api, status)));
  }
  if (!bytes.empty()) std::memcpy(data, bytes.data(), bytes.size());
  return owned;
}

Compiled CompileHere(const OvJob& job) {
  const OvRuntime& runtime = *job.runtime;
  const OvApi& api = *runtime.api;
  const auto fail = [&](int status) {
    return tl::unexpected(
        OvError(job.device.given, kTask, LastWords(api, status)));
  };
  OvModel* model = nullptr;
  int status = api.core_read(runtime.core.get(), job.xml.c_str(),
                             job.xml.size(), job.weights.get(), &model);
  if (status != 0) return fail(status);
  const OvOwned<OvModel> owned_model(model, {runtime.api});
  OvCompiled* compiled = nullptr;
  status = CallCompile(job, model, &compiled,
                       std::make_index_sequence<kMostStrings>());
  if (status != 0) return fail(status);
  return OvOwned<OvCompiled>(compiled, {runtime.api});
}

Compiled CompileWithin(std::shared_ptr<const OvJob> job,
                       const CompileOptions& options) {
  const std::string device = job->device.given;
  auto handshake = std::make_shared<Handshake>();
  TC_ASSIGN_OR_RETURN(
      std::thread thread,
      os::StartThread(fmt::format("a thread for {} on {}", kTask, device),
                      [job = std::move(job), handshake]() mutable {
                        RunThread(std::move(job), handshake);
                      }));
  const auto is_done = [&] { return handshake->result.has_value(); };
  const Stopwatch watch;
  std::unique_lock lock(handshake->mutex);
  while (!handshake->is_over.wait_for(lock, kLookAgain, is_done)) {
    const bool is_cancelled =
        options.cancel != nullptr && options.cancel->load();
    const bool is_late =
        options.most_seconds > 0.0 && watch.Seconds() > options.most_seconds;
    if (!is_cancelled && !is_late) continue;
    GuardExit();
    handshake->is_left_behind = true;
    thread.detach();
    if (is_cancelled) return Fail(ErrorCode::kCancelled, "cancelled");
    return tl::unexpected(CompileTookTooLong(device, options.most_seconds));
  }
  lock.unlock();
  thread.join();
  return *std::move(handshake->result);
}

Error CompileTookTooLong(const std::string& device, double most_seconds) {
  return {ErrorCode::kCancelled,
          fmt::format("{}: {} took more than {} s, the most it may take",
                      device, kTask, most_seconds)};
}

}  // namespace thermocline::npu

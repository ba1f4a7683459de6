#include "npu/openvino.h"

#include <algorithm>
#include <utility>

#include "base/quote.h"
#include "npu/ir.h"
#include "npu/ov_compile.h"
#include "npu/ov_errors.h"
#include "npu/ov_program.h"
#include "npu/ov_properties.h"

namespace thermocline::npu {
namespace {

class OvDevice : public StaticDevice {
 public:
  OvDevice(std::shared_ptr<const OvRuntime> runtime, OvDeviceName name,
           std::string full_name, std::vector<std::string> child_command)
      : runtime_(std::move(runtime)),
        name_(std::move(name)),
        full_name_(std::move(full_name)),
        child_command_(std::move(child_command)) {}

  std::string name() const override { return name_.given; }

  std::string Describe() const override {
    const std::string shown =
        full_name_.empty() ? "" : fmt::format(" ({})", full_name_);
    return fmt::format("OpenVINO {} on {}{}", runtime_->api->version,
                       name_.given, shown);
  }

  CompileOptions OptionsThatCount(
      const CompileOptions& options) const override {
    CompileOptions count = {.is_exact = options.is_exact,
                            .is_one_row = options.is_one_row};
    if (name_.KindOf() == "CPU") {
      count.num_threads = options.num_threads;
    } else {
      count.cache_dir = options.cache_dir;
    }
    return count;
  }

  Result<std::unique_ptr<StaticProgram>> Compile(
      const Graph& graph, const CompileOptions& options) override {
    auto job = std::make_shared<OvJob>();
    job->runtime = runtime_;
    job->device = name_;
    job->properties = PropertiesOf(name_, options, Supported());
    job->xml = WriteIr(graph);
    TC_ASSIGN_OR_RETURN(job->weights, CopyWeights(*runtime_, graph.data()));
    TC_ASSIGN_OR_RETURN(OvOwned<OvCompiled> compiled,
                        Compile(std::move(job), options));
    return OvProgram::Create(runtime_, name_.given, std::move(compiled), graph);
  }

 private:
  Result<OvOwned<OvCompiled>> Compile(std::shared_ptr<const OvJob> job,
                                      const CompileOptions& options) const {
    if (name_.is_npu() && !child_command_.empty()) {
      return CompileInChild(*job, child_command_, options);
    }
    if (options.most_seconds > 0.0 || options.cancel != nullptr) {
      return CompileWithin(std::move(job), options);
    }
    return CompileHere(*job);
  }

  // Nothing of what is only a hint for a device that does not tell.
  std::string Supported() const {
    return OvProperty(*runtime_, name_.plugin, "SUPPORTED_PROPERTIES")
        .value_or("");
  }

  const std::shared_ptr<const OvRuntime> runtime_;
  const OvDeviceName name_;
  const std::string full_name_;
  const std::vector<std::string> child_command_;
};

class LoadedOpenVino : public OpenVino {
 public:
  LoadedOpenVino(std::shared_ptr<const OvRuntime> runtime,
                 std::vector<std::string> child_command)
      : runtime_(std::move(runtime)),
        child_command_(std::move(child_command)) {}

  std::string version() const override { return runtime_->api->version; }
  std::string path() const override { return runtime_->api->path; }

  Result<std::vector<OpenVinoDevice>> Devices() const override {
    const OvApi& api = *runtime_->api;
    OvDevices listed = {};
    const int status = api.core_devices(runtime_->core.get(), &listed);
    if (status != 0) {
      return tl::unexpected(OvError(fmt::format("OpenVINO {}", version()),
                                    "looking for devices",
                                    LastWords(api, status)));
    }
    std::vector<OpenVinoDevice> devices;
    for (size_t i = 0; i < listed.count; ++i) {
      devices.push_back(
          {.name = listed.names[i], .full_name = FullNameOf(listed.names[i])});
    }
    api.devices_free(&listed);
    return devices;
  }

  Result<std::shared_ptr<StaticDevice>> Open(
      const std::string& device) override {
    OvDeviceName name = ParseOvDevice(device);
    TC_ASSIGN_OR_RETURN(std::string full_name, FullNameOfOpen(name));
    return std::make_shared<OvDevice>(runtime_, std::move(name),
                                      std::move(full_name), child_command_);
  }

 private:
  // Of a device that is there; empty: it does not tell.
  std::string FullNameOf(const std::string& device) const {
    return WithoutControls(
        OvProperty(*runtime_, device, "FULL_DEVICE_NAME").value_or(""));
  }

  Result<std::string> FullNameOfOpen(const OvDeviceName& name) const {
    TC_ASSIGN_OR_RETURN(const std::vector<OpenVinoDevice> devices, Devices());
    if (name.is_npuw) {
      const auto plugin = OvProperty(*runtime_, "NPU", "SUPPORTED_PROPERTIES");
      if (plugin.has_value()) return "the NPU's partitioning, on the CPU";
      return Missing(name, plugin.error().message, devices);
    }
    for (const OpenVinoDevice& device : devices) {
      const bool is_first_of_many =
          device.name.starts_with(fmt::format("{}.", name.plugin));
      if (device.name == name.plugin || is_first_of_many) {
        return device.full_name;
      }
    }
    const auto asked = OvProperty(*runtime_, name.plugin, "FULL_DEVICE_NAME");
    return Missing(name, asked.has_value() ? "" : asked.error().message,
                   devices);
  }

  // Why it is not there, from the words for asking after it.
  tl::unexpected<Error> Missing(
      const OvDeviceName& name, const std::string& words,
      const std::vector<OpenVinoDevice>& devices) const {
    std::vector<std::string> names;
    for (const OpenVinoDevice& device : devices) names.push_back(device.name);
    const std::string there =
        fmt::format("OpenVINO {} has {}", version(), fmt::join(names, ", "));
    const bool has_sibling = std::ranges::any_of(names, [&](auto& other) {
      return ParseOvDevice(other).KindOf() == name.KindOf();
    });
    if (words.empty() || SaysNotRegistered(words) || has_sibling) {
      return Fail(ErrorCode::kNotFound, "no device {}: {}", Quote(name.given),
                  there);
    }
    const Error error = OvError(name.given, "looking for the device", words);
    return Fail(ErrorCode::kUnsupported, "{}; {}", error.message, there);
  }

  const std::shared_ptr<const OvRuntime> runtime_;
  const std::vector<std::string> child_command_;
};

}  // namespace

Result<std::shared_ptr<OpenVino>> OpenVino::Load(
    const OpenVinoOptions& options) {
  TC_ASSIGN_OR_RETURN(std::shared_ptr<const OvRuntime> runtime,
                      StartOv(options.library));
  return std::make_shared<LoadedOpenVino>(std::move(runtime),
                                          options.child_command);
}

}  // namespace thermocline::npu

// Programs that outlive the model that they were compiled for.
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/keyed_hash.h"
#include "npu/ir.h"
#include "npu/static_device.h"

namespace thermocline::npu {
namespace {

// What a program was compiled of.
struct ProgramOrigin {
  std::string xml;
  size_t num_bytes = 0;  // of constants
  size_t hash = 0;       // of them
  CompileOptions options;
  bool operator==(const ProgramOrigin&) const = default;
};

ProgramOrigin OriginOf(const Graph& graph, CompileOptions options) {
  const std::string_view bytes(
      reinterpret_cast<const char*>(graph.data().data()), graph.data().size());
  return {WriteIr(graph), bytes.size(), KeyedHash()(bytes), std::move(options)};
}

// A session has programs of one row beside those of many.
bool AreOfOneSession(CompileOptions one, const CompileOptions& other) {
  one.is_one_row = other.is_one_row;
  return one == other;
}

// Programs that nobody has.
// Threads  any, all calls.
class Shelf {
 public:
  // Null: none. Drops what other options made.
  std::unique_ptr<StaticProgram> Take(const ProgramOrigin& origin) {
    const std::lock_guard lock(mutex_);
    std::erase_if(programs_, [&](const auto& entry) {
      return !AreOfOneSession(entry.first.options, origin.options);
    });
    for (auto entry = programs_.begin(); entry != programs_.end(); ++entry) {
      if (entry->first != origin) continue;
      auto program = std::move(entry->second);
      programs_.erase(entry);
      return program;
    }
    return nullptr;
  }
  void Put(ProgramOrigin origin, std::unique_ptr<StaticProgram> program) {
    const std::lock_guard lock(mutex_);
    programs_.emplace_back(std::move(origin), std::move(program));
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<ProgramOrigin, std::unique_ptr<StaticProgram>>>
      programs_;
};

// Goes back to the shelf.
class LentProgram final : public StaticProgram {
 public:
  LentProgram(std::shared_ptr<Shelf> shelf, ProgramOrigin origin,
              std::unique_ptr<StaticProgram> program)
      : shelf_(std::move(shelf)),
        origin_(std::move(origin)),
        program_(std::move(program)) {}
  ~LentProgram() override {
    shelf_->Put(std::move(origin_), std::move(program_));
  }

  Status Bind(std::string_view name, const Type& type,
              std::byte* data) override {
    return program_->Bind(name, type, data);
  }
  Status Infer() override { return program_->Infer(); }
  Status Reset() override { return program_->Reset(); }

 private:
  std::shared_ptr<Shelf> shelf_;
  ProgramOrigin origin_;
  std::unique_ptr<StaticProgram> program_;
};

class KeepingDevice final : public StaticDevice {
 public:
  explicit KeepingDevice(std::shared_ptr<StaticDevice> device)
      : device_(std::move(device)) {}

  std::string name() const override { return device_->name(); }
  std::string Describe() const override { return device_->Describe(); }
  CompileOptions OptionsThatCount(
      const CompileOptions& options) const override {
    return device_->OptionsThatCount(options);
  }
  Result<std::unique_ptr<StaticProgram>> Compile(
      const Graph& graph, const CompileOptions& options) override {
    ProgramOrigin origin = OriginOf(graph, OptionsThatCount(options));
    std::unique_ptr<StaticProgram> program = shelf_->Take(origin);
    if (program == nullptr || !program->Reset().has_value()) {
      TC_ASSIGN_OR_RETURN(program, device_->Compile(graph, options));
    }
    return std::make_unique<LentProgram>(shelf_, std::move(origin),
                                         std::move(program));
  }

 private:
  std::shared_ptr<StaticDevice> device_;
  std::shared_ptr<Shelf> shelf_ = std::make_shared<Shelf>();
};

}  // namespace

std::shared_ptr<StaticDevice> KeepPrograms(
    std::shared_ptr<StaticDevice> device) {
  return std::make_shared<KeepingDevice>(std::move(device));
}

}  // namespace thermocline::npu

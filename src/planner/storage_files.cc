#include "planner/storage_files.h"

#include <memory>
#include <optional>
#include <utility>

#include "base/units.h"
#include "os/file.h"
#include "planner/plan_text.h"

namespace thermocline::planner {
namespace {

constexpr std::string_view kStorageDoc = "storage-plan.md";
constexpr double kMostRate = 1e18;
constexpr uint64_t kMostWhole = uint64_t{1} << 62;
constexpr size_t kMostRows = 1 << 16;

// Of the keys that all such files begin with.
Result<nlohmann::json> ParseStorageJson(std::string_view text,
                                        const std::string& path) {
  if (text.size() <= kMaxStorageFileBytes) return ParsePlanJson(text, path);
  return Fail(ErrorCode::kCorrupt, "{}: {}, more than the {} of a plan", path,
              FormatBytes(text.size()), FormatBytes(kMaxStorageFileBytes));
}

std::string FormatHead(std::string_view format) {
  return fmt::format("{{\n  \"format\": \"{}\",\n  \"version\": {},\n", format,
                     kStorageFileVersion);
}

Result<std::vector<uint32_t>> ReadCpus(PlanFields& fields,
                                       const std::string& key) {
  TC_ASSIGN_OR_RETURN(const std::string text, fields.Text(key));
  std::optional<std::vector<uint32_t>> cpus = ParseRuns(text, kMaxCpu);
  if (cpus) return *std::move(cpus);
  return fields.Wrong(key,
                      "ascending numbers of CPUs and runs of them, as "
                      "\"0-3,6\"");
}

Status ReadPrediction(PlanFields& top, StoragePlanFile& plan) {
  TC_ASSIGN_OR_RETURN(PlanFields fields, top.Object("predicted"));
  TC_ASSIGN_OR_RETURN(plan.seconds,
                      fields.Number("seconds_per_token", kMostRate));
  TC_ASSIGN_OR_RETURN(plan.num_missed,
                      fields.Number("misses_per_token", kMostRate));
  TC_ASSIGN_OR_RETURN(plan.read_bytes,
                      fields.Number("read_bytes_per_token", kMostRate));
  return fields.CheckNoOthers(kStorageDoc);
}

// A list of objects, each read by `read`.
template <typename Read>
Status ReadRows(PlanFields& fields, const std::string& key,
                const std::string& path, const Read& read) {
  TC_ASSIGN_OR_RETURN(const nlohmann::json* rows, fields.Array(key));
  if (rows->size() > kMostRows) {
    return fields.Wrong(key, fmt::format("a list of at most {}", kMostRows));
  }
  for (size_t i = 0; i < rows->size(); ++i) {
    const std::string name = fmt::format("{}[{}]", key, i);
    if (!(*rows)[i].is_object()) return fields.Wrong(name, "an object");
    PlanFields row((*rows)[i], path, name + ".");
    TC_RETURN_IF_ERROR(read(row));
    TC_RETURN_IF_ERROR(row.CheckNoOthers(kStorageDoc));
  }
  return {};
}

Status ReadCores(PlanFields& top, const std::string& path,
                 StorageMachine& machine) {
  return ReadRows(top, "cores", path, [&](PlanFields& row) -> Status {
    Core& core = machine.cores.emplace_back();
    TC_ASSIGN_OR_RETURN(const uint64_t cpu, row.Whole("cpu", kMaxCpu - 1));
    core.cpu = static_cast<int>(cpu);
    TC_ASSIGN_OR_RETURN(core.row_rate,
                        row.Rate("row_bytes_per_second", kMostRate));
    TC_ASSIGN_OR_RETURN(core.prompt_rate,
                        row.Rate("prompt_bytes_per_second", kMostRate));
    TC_ASSIGN_OR_RETURN(core.read_share, row.Rate("read_share", 1.0));
    return {};
  });
}

Status ReadMemory(PlanFields& top, const std::string& path,
                  StorageMachine& machine) {
  return ReadRows(top, "memory", path, [&](PlanFields& row) -> Status {
    MemoryRate& rate = machine.memory.emplace_back();
    TC_ASSIGN_OR_RETURN(const uint64_t threads, row.Whole("threads", kMaxCpu));
    rate.num_threads = static_cast<uint32_t>(threads);
    TC_ASSIGN_OR_RETURN(rate.bytes_per_s,
                        row.Rate("bytes_per_second", kMostRate));
    const size_t count = machine.memory.size();
    if (count > 1 && machine.memory[count - 2].num_threads >= threads) {
      return row.Wrong("threads", "more than those before");
    }
    return {};
  });
}

Status ReadReads(PlanFields& top, const std::string& path,
                 StorageMachine& machine) {
  return ReadRows(top, "reads", path, [&](PlanFields& row) -> Status {
    ReadRate& rate = machine.reads.emplace_back();
    TC_ASSIGN_OR_RETURN(rate.is_random, row.Bool("random"));
    TC_ASSIGN_OR_RETURN(rate.block_bytes, row.Whole("block_bytes", kMostWhole));
    TC_ASSIGN_OR_RETURN(const uint64_t depth, row.Whole("depth", kMaxCpu));
    rate.depth = static_cast<uint32_t>(depth);
    TC_ASSIGN_OR_RETURN(rate.reads_per_s,
                        row.Rate("reads_per_second", kMostRate));
    return {};
  });
}

Status ReadReading(PlanFields& top, const std::string& path,
                   StorageMachine& machine) {
  TC_ASSIGN_OR_RETURN(machine.read_cpu_seconds,
                      top.Number("read_cpu_seconds", 1.0));
  const auto whole = [&](const std::string& key, uint32_t& value) -> Status {
    TC_ASSIGN_OR_RETURN(const uint64_t number, top.Whole(key, kMaxCpu));
    value = static_cast<uint32_t>(number);
    return {};
  };
  TC_RETURN_IF_ERROR(whole("most_under_way", machine.most_under_way));
  TC_RETURN_IF_ERROR(whole("least_io_cores", machine.least_io_cores));
  TC_RETURN_IF_ERROR(whole("most_io_cores", machine.most_io_cores));
  return ReadRows(top, "more_io_cores", path, [&](PlanFields& row) -> Status {
    TC_ASSIGN_OR_RETURN(machine.more_io_cores.emplace_back(),
                        row.Rate("share", 100.0));
    return {};
  });
}

// Lines of rows, joined.
template <typename Row>
std::string JoinRows(const std::vector<Row>& rows,
                     const std::function<std::string(const Row&)>& format) {
  std::string text = "[";
  for (const Row& row : rows) {
    text += text.size() == 1 ? "\n    " : ",\n    ";
    text += format(row);
  }
  return text + (rows.empty() ? "]" : "\n  ]");
}

Status WriteText(const std::string& text, const std::string& path) {
  TC_ASSIGN_OR_RETURN(const std::unique_ptr<os::AtomicFile> file,
                      os::AtomicFile::Create(path));
  TC_RETURN_IF_ERROR(file->Write(std::string_view(text)));
  return file->Commit();
}

}  // namespace

bool IsStoragePlan(std::string_view text) {
  return text.substr(0, 256).find(kStoragePlanFormat) != std::string_view::npos;
}

bool IsStorageMachine(std::string_view text) {
  return text.substr(0, 256).find(kStorageMachineFormat) !=
         std::string_view::npos;
}

std::string FormatStoragePlan(const StoragePlanFile& plan) {
  return FormatHead(kStoragePlanFormat) + FormatFingerprint(plan.model) +
         fmt::format(
             "  \"machine\": {},\n  \"budget_bytes\": {},\n  \"context\": {},\n"
             "  \"mode\": {},\n  \"unit\": {},\n  \"policy\": {},\n"
             "  \"compute_cpus\": \"{}\",\n  \"io_cpus\": \"{}\",\n"
             "  \"cache_bytes\": {},\n  \"predicted\": "
             "{{\"seconds_per_token\": "
             "{}, \"misses_per_token\": {}, \"read_bytes_per_token\": {}}}\n"
             "}}\n",
             JsonText(plan.machine), plan.budget, plan.context,
             JsonText(plan.mode), JsonText(plan.unit), JsonText(plan.policy),
             FormatRuns(plan.compute_cpus), FormatRuns(plan.io_cpus),
             plan.cache_bytes, plan.seconds, plan.num_missed, plan.read_bytes);
}

Result<StoragePlanFile> ParseStoragePlan(std::string_view text,
                                         const std::string& path) {
  TC_ASSIGN_OR_RETURN(const nlohmann::json json, ParseStorageJson(text, path));
  PlanFields top(json, path, "");
  StoragePlanFile plan;
  TC_RETURN_IF_ERROR(
      ReadFormat(top, kStoragePlanFormat, kStorageFileVersion, path));
  TC_ASSIGN_OR_RETURN(plan.model, ReadFingerprint(top));
  TC_ASSIGN_OR_RETURN(plan.machine, top.Text("machine"));
  TC_ASSIGN_OR_RETURN(plan.budget, top.Whole("budget_bytes", kMostWhole));
  TC_ASSIGN_OR_RETURN(plan.context, top.Whole("context", kMostWhole));
  TC_ASSIGN_OR_RETURN(plan.mode, top.Text("mode"));
  TC_ASSIGN_OR_RETURN(plan.unit, top.Text("unit"));
  TC_ASSIGN_OR_RETURN(plan.policy, top.Text("policy"));
  TC_ASSIGN_OR_RETURN(plan.compute_cpus, ReadCpus(top, "compute_cpus"));
  if (plan.compute_cpus.empty()) {
    return top.Wrong("compute_cpus", "one CPU at least, as \"0-3\"");
  }
  TC_ASSIGN_OR_RETURN(plan.io_cpus, ReadCpus(top, "io_cpus"));
  TC_ASSIGN_OR_RETURN(plan.cache_bytes, top.Whole("cache_bytes", kMostWhole));
  TC_RETURN_IF_ERROR(ReadPrediction(top, plan));
  TC_RETURN_IF_ERROR(top.CheckNoOthers(kStorageDoc));
  return plan;
}

std::string FormatStorageMachine(const StorageMachine& machine) {
  return FormatHead(kStorageMachineFormat) +
         fmt::format(
             "  \"name\": {},\n  \"cores\": {},\n  \"memory\": {},\n"
             "  \"reads\": {},\n  \"read_cpu_seconds\": {},\n"
             "  \"most_under_way\": {},\n  \"least_io_cores\": {},\n"
             "  \"most_io_cores\": {},\n  \"more_io_cores\": {}\n}}\n",
             JsonText(machine.name),
             JoinRows<Core>(
                 machine.cores,
                 [](const Core& core) {
                   return fmt::format(
                       "{{\"cpu\": {}, \"row_bytes_per_second\": {}, "
                       "\"prompt_bytes_per_second\": {}, "
                       "\"read_share\": {}}}",
                       core.cpu, core.row_rate, core.prompt_rate,
                       core.read_share);
                 }),
             JoinRows<MemoryRate>(
                 machine.memory,
                 [](const MemoryRate& rate) {
                   return fmt::format(
                       "{{\"threads\": {}, \"bytes_per_second\": {}}}",
                       rate.num_threads, rate.bytes_per_s);
                 }),
             JoinRows<ReadRate>(
                 machine.reads,
                 [](const ReadRate& rate) {
                   return fmt::format(
                       "{{\"random\": {}, \"block_bytes\": {}, \"depth\": {}, "
                       "\"reads_per_second\": {}}}",
                       rate.is_random, rate.block_bytes, rate.depth,
                       rate.reads_per_s);
                 }),
             machine.read_cpu_seconds, machine.most_under_way,
             machine.least_io_cores, machine.most_io_cores,
             JoinRows<double>(machine.more_io_cores, [](const double& share) {
               return fmt::format("{{\"share\": {}}}", share);
             }));
}

Result<StorageMachine> ParseStorageMachine(std::string_view text,
                                           const std::string& path) {
  TC_ASSIGN_OR_RETURN(const nlohmann::json json, ParseStorageJson(text, path));
  PlanFields top(json, path, "");
  StorageMachine machine;
  TC_RETURN_IF_ERROR(
      ReadFormat(top, kStorageMachineFormat, kStorageFileVersion, path));
  TC_ASSIGN_OR_RETURN(machine.name, top.Text("name"));
  TC_RETURN_IF_ERROR(ReadCores(top, path, machine));
  TC_RETURN_IF_ERROR(ReadMemory(top, path, machine));
  TC_RETURN_IF_ERROR(ReadReads(top, path, machine));
  TC_RETURN_IF_ERROR(ReadReading(top, path, machine));
  TC_RETURN_IF_ERROR(top.CheckNoOthers(kStorageDoc));
  const Status is_good = CheckMachine(machine);
  if (!is_good.has_value()) return Annotate(path, is_good.error());
  return machine;
}

Result<StoragePlanFile> ReadStoragePlan(const std::string& path) {
  TC_ASSIGN_OR_RETURN(const std::string text,
                      os::ReadFile(path, kMaxStorageFileBytes));
  return ParseStoragePlan(text, path);
}

Status WriteStoragePlan(const StoragePlanFile& plan, const std::string& path) {
  return WriteText(FormatStoragePlan(plan), path);
}

Result<StorageMachine> ReadStorageMachine(const std::string& path) {
  TC_ASSIGN_OR_RETURN(const std::string text,
                      os::ReadFile(path, kMaxStorageFileBytes));
  return ParseStorageMachine(text, path);
}

Status WriteStorageMachine(const StorageMachine& machine,
                           const std::string& path) {
  return WriteText(FormatStorageMachine(machine), path);
}

}  // namespace thermocline::planner

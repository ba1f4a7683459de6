#include "eval/mc_task.h"

#include <exception>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <utility>

#include "base/quote.h"
#include "eval/mc_schema.h"
#include "text/utf8.h"

namespace thermocline::eval {
namespace {

using Json = nlohmann::json;
using text::kByteOrderMark;

constexpr std::string_view kJsonSpace = " \t\r";

// Never leaves ParseRecord.
class Complaint : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Watches the parser go through a record, and stops it by an exception at
// nesting that no task has, or at a key whose second value would hide the
// first.
class Guard {
 public:
  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    using Event = Json::parse_event_t;
    // Of what opens an object or a list, `depth` is that of its place.
    const bool opens =
        event == Event::object_start || event == Event::array_start;
    if (depth + (opens ? 1 : 0) > kMaxMcJsonDepth) {
      throw Complaint(fmt::format("nested more than {} deep", kMaxMcJsonDepth));
    }
    if (event == Event::object_start) keys_.emplace_back();
    if (event == Event::object_end) keys_.pop_back();
    if (event == Event::key) {
      const auto& key = parsed.get_ref<const Json::string_t&>();
      if (!keys_.back().insert(key).second) {
        throw Complaint(fmt::format("key {} twice", Quote(key)));
      }
    }
    return true;
  }

 private:
  std::vector<std::set<std::string>> keys_;  // of the open objects
};

Result<Json> ParseRecord(std::string_view line) {
  if (line.size() > kMaxMcLineBytes) {
    return Fail(ErrorCode::kCorrupt, "a line of {} bytes, more than {}",
                line.size(), kMaxMcLineBytes);
  }
  // The parser would skip it in front of every line.
  if (line.starts_with(kByteOrderMark)) {
    return Fail(ErrorCode::kCorrupt,
                "a byte order mark, which only the file may begin with");
  }
  Guard guard;
  Json record;
  try {
    record = Json::parse(line.begin(), line.end(), std::ref(guard));
  } catch (const Complaint& complaint) {
    return Fail(ErrorCode::kCorrupt, "not valid JSON: {}", complaint.what());
  } catch (const Json::parse_error& error) {
    return Fail(
        ErrorCode::kCorrupt,
        "not valid JSON at byte {}; a task file has one record per line",
        error.byte);
  } catch (const std::exception&) {
    return Fail(ErrorCode::kCorrupt, "not valid JSON: a number is too large");
  }
  if (record.is_object()) return record;
  return Fail(ErrorCode::kCorrupt,
              "{} where a JSON object is needed: one record per line",
              record.type_name());
}

// Reads records by the schema of the first.
class TaskReader {
 public:
  explicit TaskReader(const std::string& path) { task_.path = path; }

  Status ReadLine(std::string_view line, int64_t line_number) {
    if (line.find_first_not_of(kJsonSpace) == std::string_view::npos) return {};
    auto item = ReadItem(line);
    if (!item.has_value()) {
      return Annotate(fmt::format("{}: line {}", task_.path, line_number),
                      item.error());
    }
    item->line = line_number;
    task_.items.push_back(*std::move(item));
    return {};
  }

  size_t num_items() const { return task_.items.size(); }
  McTask Take() && { return std::move(task_); }

 private:
  Result<McItem> ReadItem(std::string_view line) {
    TC_ASSIGN_OR_RETURN(const Json record, ParseRecord(line));
    if (schema_ == nullptr) {
      TC_ASSIGN_OR_RETURN(schema_, FindMcSchema(record));
      task_.schema = schema_->name;
    }
    return ReadMcItem(*schema_, record);
  }

  McTask task_;
  const McSchema* schema_ = nullptr;
};

}  // namespace

size_t NumScoredBytes(std::string_view continuation) {
  return continuation.size() - continuation.find_first_not_of(kWhiteSpace);
}

Result<McTask> ParseMcTask(std::string_view text, const std::string& path,
                           size_t max_items) {
  text = text::WithoutByteOrderMark(text);
  TaskReader reader(path);
  int64_t line_number = 0;
  while (!text.empty() && (max_items == 0 || reader.num_items() < max_items)) {
    const size_t end = std::min(text.find('\n'), text.size());
    TC_RETURN_IF_ERROR(reader.ReadLine(text.substr(0, end), ++line_number));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (reader.num_items() == 0) {
    return Fail(ErrorCode::kCorrupt,
                "{}: no records: a task file has one JSON object per line",
                path);
  }
  return std::move(reader).Take();
}

std::string FormatExamples(const McTask& task) {
  std::string text;
  for (const McItem& item : task.items) {
    text += item.context(item.gold) + item.continuations[item.gold] + "\n\n";
  }
  return text;
}

}  // namespace thermocline::eval

#include "cli/session_timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/test_files.h"
#include "cli/test_main.h"

namespace thermocline::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

std::string WrittenText(const Timeline& timeline) {
  std::string text;
  const Status written =
      WriteTimeline(timeline, [&](std::string_view piece) -> Status {
        text += piece;
        return {};
      });
  EXPECT_TRUE(written.has_value());
  return text;
}

std::string BytesOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

const std::vector<std::string> kOnSim = {
    "--device", "sim", "--machine",
    std::string(TC_SOURCE_DIR) + "/machines/slow-host.json"};

MainResult RunDrawn(const std::string& path,
                    const std::vector<std::string>& more) {
  std::vector<std::string> args = {"run", "-m",        kPowerInferLlama,
                                   "-p",  "Once upon", "-c",
                                   "64",  "--temp",    "0",
                                   "-n",  "4",         "--timeline",
                                   path};
  args.insert(args.end(), more.begin(), more.end());
  return RunMain(args);
}

std::vector<std::string> OnSimToo(std::vector<std::string> flags) {
  flags.insert(flags.end(), kOnSim.begin(), kOnSim.end());
  return flags;
}

// Names of the spans of a row and how many there are.
std::map<std::string, int> SpansOf(const json& file, const std::string& process,
                                   const std::string& row) {
  json pid, tid;
  std::map<std::string, int> counts;
  for (const json& event : file["traceEvents"]) {
    if (event["ph"] == "M") {
      const json& name = event["args"].value("name", json());
      if (event["name"] == "process_name" && name == process) {
        pid = event["pid"];
      } else if (event["name"] == "thread_name" && name == row &&
                 event["pid"] == pid) {
        tid = event["tid"];
      }
    } else if (event["pid"] == pid && event["tid"] == tid) {
      ++counts[event["name"].get<std::string>()];
    }
  }
  return counts;
}

TEST(SessionTimelineTest, WritesEventsThatAnyNameFits) {
  Timeline timeline;
  const Timeline::Row row = timeline.AddRow("a \"card\"\n\\", "r\xff");
  timeline.Add(row, {.name = "</script>\x01",
                     .begin_s = 1.5e-6,
                     .end_s = 3.501e-6,
                     .number = 13,
                     .layer = 0,
                     .num_bytes = 2000,
                     .wait_share = 0.5});
  timeline.Add(row, {.name = "waiting", .begin_s = 1.0, .end_s = 1.0});
  const json file = json::parse(WrittenText(timeline));
  const json& events = file["traceEvents"];
  ASSERT_EQ(events.size(), 6u);
  EXPECT_EQ(events[0]["args"]["name"], "a \"card\"\n\\");
  EXPECT_EQ(events[2]["args"]["name"], "r\xEF\xBF\xBD");
  EXPECT_EQ(events[4], json({{"ph", "X"},
                             {"pid", 1},
                             {"tid", 1},
                             {"name", "</script>\x01 13"},
                             {"ts", 1.5},
                             {"dur", 2.001},
                             {"args",
                              {{"layer", 0},
                               {"bytes", 2000},
                               {"gb_per_s", 1.0},
                               {"wait_share", 0.5}}}}));
  EXPECT_EQ(events[5]["cname"], "grey");
  EXPECT_EQ(events[5]["dur"], 0.0);
  const json& use = file["otherData"]["rows"][0];
  EXPECT_EQ(use["spans"], 2);
  EXPECT_EQ(use["gaps"], 1);
  EXPECT_EQ(use["busy_us"], 2.001);
  EXPECT_EQ(file["otherData"]["clock"], "wall");
}

TEST(SessionTimelineTest, AnEmptyOneIsAFileToo) {
  const json file = json::parse(WrittenText(Timeline()));
  EXPECT_TRUE(file["traceEvents"].empty());
  Timeline full(0);
  full.Add(full.AddRow("p", "r"), {.name = "x"});
  EXPECT_EQ(json::parse(WrittenText(full))["otherData"]["dropped_spans"], 1);
}

// In virtual time, which no thread changes.
TEST(SessionTimelineTest, ASimulatedSessionGivesTheSameBytes) {
  std::string first;
  for (const char* threads : {"1", "2", "2"}) {
    const std::string path = TempPath("sim.json");
    const MainResult run =
        RunDrawn(path, OnSimToo({"--vram", "1MiB", "-t", threads}));
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_THAT(run.err, HasSubstr("wrote " + path));
    const std::string bytes = BytesOf(path);
    if (first.empty()) first = bytes;
    EXPECT_EQ(bytes, first) << threads;
  }
  const json file = json::parse(first);
  EXPECT_EQ(file["otherData"]["clock"], "virtual");
  EXPECT_EQ(file["traceEvents"][0]["args"]["name"], "host");
  const auto passes = SpansOf(file, "host", "passes");
  EXPECT_EQ(passes.count("prompt of 15"), 1u);
  EXPECT_EQ(passes.count("token 16"), 1u);
  EXPECT_EQ(passes.count("weights to the device"), 1u);
  const auto stages = SpansOf(file, "host", "main");
  EXPECT_GT(stages.at("waiting"), 3);
  EXPECT_GT(stages.at("neurons"), 3);
  EXPECT_GT(SpansOf(file, "sim0", "stream 0").at("SparseFfn"), 3);
  EXPECT_GT(SpansOf(file, "sim0", "link up").at("copy"), 3);
  EXPECT_GT(SpansOf(file, "sim0", "link down").at("copy"), 3);
}

// Also where nothing is generated.
TEST(SessionTimelineTest, DrawsTheHostAlone) {
  for (const char* count : {"0", "3"}) {
    const std::string path = TempPath("host.json");
    const MainResult run = RunDrawn(path, {"-t", "2", "-n", count});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    const json file = json::parse(BytesOf(path));
    EXPECT_EQ(file["otherData"]["clock"], "wall");
    EXPECT_EQ(file["otherData"]["dropped_spans"], 0);
    if (std::string(count) == "0") continue;
    const auto stages = SpansOf(file, "host", "main");
    for (const char* name : {"embed", "qkv", "attend", "neurons", "head"}) {
      EXPECT_GT(stages.count(name), 0u) << name;
    }
  }
}

// Before the model is looked at, and without touching what is there.
TEST(SessionTimelineTest, RefusesAFileThatItCannotWrite) {
  const std::string none = TempPath("none.gguf");
  const std::string path = TempPath("no") + "/folder/t.json";
  const MainResult run =
      RunMain({"run", "-m", none, "-p", "a", "--timeline", path});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr(path));
  const MainResult input =
      RunMain({"run", "-m", kLlamaF16, "-p", "a", "--timeline", kLlamaF16});
  EXPECT_EQ(input.exit_code, 1);
  EXPECT_THAT(input.err, HasSubstr("one of the files to read"));
  const MainResult empty = RunMain({"run", "-m", none, "--timeline", ""});
  EXPECT_EQ(empty.exit_code, 2);
  EXPECT_THAT(empty.err, HasSubstr("--timeline: the path is empty"));
  const std::string kept = TempPath("kept.json");
  std::ofstream(kept) << "as it was";
  EXPECT_EQ(
      RunMain({"run", "-m", none, "-p", "a", "--timeline", kept}).exit_code, 1);
  EXPECT_EQ(BytesOf(kept), "as it was");
}

struct FileOfCommand {
  std::vector<std::string> args;
  std::string path;
  const char* message;
};

std::vector<FileOfCommand> FilesOfCommands(const std::string& machine,
                                           const std::string& text) {
  const char* input = "one of the files to read";
  const std::string logits = TempPath("l.f32");
  return {
      {{"run", "-p", "a", "-n", "2"}, machine, input},
      {{"run", "-f", text, "-n", "2"}, text, input},
      {{"bench", "-n", "4"}, machine, input},
      {{"bench", "-f", text, "-pg", "0,4"}, text, input},
      {{"bench", "--time-only", text}, text, input},
      {{"eval", "ppl", "-f", text, "-c", "8"}, text, input},
      {{"eval", "logits", "--tokens-file", text, "-o", logits}, text, input},
      {{"eval", "logits", "--tokens", "1", "-o", logits},
       logits,
       "two outputs have this name"}};
}

// Whatever a command reads or writes besides, the timeline takes no place of
// it.
TEST(SessionTimelineTest, ReplacesNoFileOfItsCommand) {
  const std::string machine = TempPath("card.json");
  fs::copy_file(std::string(TC_SOURCE_DIR) + "/machines/slow-host.json",
                machine, fs::copy_options::overwrite_existing);
  const std::string text = TempPath("read.txt");
  const std::string words = "Once upon a time there was a cat and a dog.";
  std::ofstream(text) << words;
  const std::string card = BytesOf(machine);
  for (const FileOfCommand& c : FilesOfCommands(machine, text)) {
    std::vector<std::string> args = c.args;
    args.insert(args.end(), {"-m", kPowerInferLlama, "--timeline", c.path,
                             "--device", "sim", "--machine", machine});
    const MainResult run = RunMain(args);
    EXPECT_EQ(run.exit_code, 1) << c.args[0];
    EXPECT_THAT(run.err, HasSubstr(c.path + ": "));
    EXPECT_THAT(run.err, HasSubstr(c.message));
    EXPECT_EQ(BytesOf(machine), card);
    EXPECT_EQ(BytesOf(text), words);
  }
}

// What an interrupted command has done is drawn; its code stays.
TEST(SessionTimelineTest, AnInterruptedActionIsDrawn) {
  const std::string path = TempPath("cut.json");
  const auto timeline = std::make_shared<SessionTimeline>(path);
  const Action action = WithTimeline(timeline, {}, {}, [&]() -> Status {
    Timeline& drawn = *timeline->timeline();
    drawn.Add(drawn.AddRow("host", "main"), {.name = "qkv", .end_s = 1.0});
    return Fail(ErrorCode::kCancelled, "interrupted");
  });
  const Status status = action();
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(SpansOf(json::parse(BytesOf(path)), "host", "main").at("qkv"), 1);
}

TEST(SessionTimelineTest, OtherCommandsDrawToo) {
  const std::string path = TempPath("other.json");
  const std::string text = TempPath("text.txt");
  std::ofstream(text) << "Once upon a time there was a cat, and then a dog.";
  const std::string trace = TempPath("t.trace");
  ASSERT_EQ(RunMain({"trace", "-m", kPowerInferLlama, "-f", text, "-o", trace,
                     "-n", "4"})
                .exit_code,
            0);
  const std::vector<std::string> commands[] = {
      {"bench", "-m", kPowerInferLlama, "-p", "4", "-n", "2", "-r", "1", "-t",
       "1"},
      OnSimToo({"bench", "-m", kPowerInferLlama, "-p", "4", "-n", "5", "--vram",
                "1MiB,2MiB", "-t", "1"}),
      OnSimToo({"bench", "-m", kPowerInferLlama, "--time-only", trace, "-d",
                "4", "--vram", "1MiB"}),
      {"eval", "ppl", "-m", kPowerInferLlama, "-f", text, "-c", "16"},
      {"eval", "logits", "-m", kPowerInferLlama, "--tokens", "1,2,3", "-o",
       TempPath("l.f32")},
  };
  for (std::vector<std::string> command : commands) {
    command.insert(command.end(), {"--timeline", path});
    const MainResult run = RunMain(command);
    ASSERT_EQ(run.exit_code, 0) << run.err;
    const json file = json::parse(BytesOf(path));
    EXPECT_GT(SpansOf(file, "host", "passes").size(), 0u) << command[0];
    EXPECT_GT(SpansOf(file, "host", "main").size(), 3u) << command[0];
  }
}

}  // namespace
}  // namespace thermocline::cli

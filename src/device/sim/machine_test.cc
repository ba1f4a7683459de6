#include "device/sim/machine.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "os/file.h"
#include "os/test_folder.h"

namespace thermocline::device {
namespace {

std::string FolderOfMachines() {
  return std::string(TC_SOURCE_DIR) + "/machines";
}

std::string SomeMachine() {
  auto text = os::ReadFile(FolderOfMachines() + "/rtx4090-ddr5.json");
  EXPECT_TRUE(text.has_value());
  return text.value_or("");
}

void ExpectRefused(const std::string& text, ErrorCode code,
                   const std::string& what) {
  const auto machine = ParseMachine(text, "m.json");
  ASSERT_FALSE(machine.has_value()) << text;
  EXPECT_EQ(machine.error().code, code) << machine.error().message;
  EXPECT_EQ(machine.error().message.find("m.json: "), 0u)
      << machine.error().message;
  EXPECT_NE(machine.error().message.find(what), std::string::npos)
      << machine.error().message << "\nwithout: " << what;
}

TEST(Machine, ThoseOfTheRepositoryAreWhatTheySay) {
  const auto high = ReadMachine(FolderOfMachines() + "/rtx4090-ddr5.json");
  ASSERT_TRUE(high.has_value()) << high.error().message;
  EXPECT_EQ(high->name, "NVIDIA GeForce RTX 4090");
  EXPECT_EQ(high->memory_bytes, uint64_t{24564} << 20);
  EXPECT_EQ(high->device_rate, 1008e9 * 0.92);
  EXPECT_EQ(high->up_rate, 25e9);
  EXPECT_EQ(high->down_rate, 25e9);
  EXPECT_EQ(high->copy_latency, 1.3e-6);
  EXPECT_EQ(high->bus_rate, 67.2e9 * 0.9);
  EXPECT_EQ(high->pool_rate, 67.2e9 * 0.9);
  EXPECT_EQ(high->launch_latency, 2e-6);
  EXPECT_EQ(high->graph_op_latency, 1e-6);
  EXPECT_EQ(high->sync_latency, 5e-6);

  const auto low = ReadMachine(FolderOfMachines() + "/rtx2080ti-ddr4.json");
  ASSERT_TRUE(low.has_value()) << low.error().message;
  EXPECT_EQ(low->memory_bytes, uint64_t{11264} << 20);
  EXPECT_EQ(low->device_rate, 616e9 * 0.9);
  EXPECT_EQ(low->up_rate, 12e9);
  EXPECT_EQ(low->bus_rate, 38.4e9 * 0.9);
}

TEST(Machine, EveryFileOfTheRepositoryIsOne) {
  size_t count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(FolderOfMachines())) {
    const auto machine = ReadMachine(entry.path().string());
    EXPECT_TRUE(machine.has_value()) << machine.error().message;
    ++count;
  }
  EXPECT_GE(count, 6u);
}

// Those of KaiRox and DynamicInfer, by their data sheets.
TEST(Machine, ThoseOfOtherPapersAreWhatTheySay) {
  struct Case {
    const char* name;
    uint64_t mib;
    double device, up, bus, pool;  // GB/s
  };
  for (const Case& one :
       {Case{"rtx4090-epyc-7542", 24564, 1008 * 0.92, 25, 204.8 * 0.9, 128},
        Case{"rtx3080ti-xeon-e5-2680v4", 12288, 912 * 0.92, 12, 76.8 * 0.9, 65},
        Case{"rtx4090-xeon-8358p", 24564, 1008 * 0.92, 25, 204.8 * 0.9,
             204.8 * 0.75},
        Case{"rtx2080ti-ryzen-5950x", 11264, 616 * 0.9, 12, 51.2 * 0.9,
             51.2 * 0.9}}) {
    SCOPED_TRACE(one.name);
    const auto machine =
        ReadMachine(FolderOfMachines() + "/" + one.name + ".json");
    ASSERT_TRUE(machine.has_value()) << machine.error().message;
    EXPECT_EQ(machine->memory_bytes, one.mib << 20);
    EXPECT_DOUBLE_EQ(machine->device_rate, one.device * 1e9);
    EXPECT_EQ(machine->up_rate, one.up * 1e9);
    EXPECT_EQ(machine->down_rate, one.up * 1e9);
    EXPECT_EQ(machine->copy_latency, one.up == 12 ? 1.8e-6 : 1.3e-6);
    EXPECT_DOUBLE_EQ(machine->bus_rate, one.bus * 1e9);
    EXPECT_DOUBLE_EQ(machine->pool_rate, one.pool * 1e9);
  }
}

TEST(Machine, IsNothingWhenItIsCut) {
  const std::string text = SomeMachine();
  for (size_t size = 0; size + 2 < text.size(); ++size) {
    ExpectRefused(text.substr(0, size), ErrorCode::kCorrupt,
                  "not valid JSON at byte");
  }
}

TEST(Machine, SaysWhichKeyIsMissing) {
  const auto machine = nlohmann::json::parse(SomeMachine());
  for (const auto& [key, value] : machine.items()) {
    if (key == "comment") continue;
    auto without = machine;
    without.erase(key);
    ExpectRefused(without.dump(), ErrorCode::kInvalidArgument,
                  "key \"" + key + "\" is missing; it must be ");
    if (!value.is_object()) continue;
    for (const auto& [inner, ignored] : value.items()) {
      if (inner == "comment") continue;
      without = machine;
      without[key].erase(inner);
      ExpectRefused(without.dump(), ErrorCode::kInvalidArgument,
                    "key \"" + key + "." + inner + "\" is missing");
    }
  }
}

TEST(Machine, SaysWhatAKeyMustBe) {
  struct Case {
    const char* group;
    const char* key;
    const char* value;
    const char* what;
  };
  const Case cases[] = {
      {"", "format", "\"thermocline-trace\"", "\"thermocline-machine\""},
      {"", "version", "2", "key \"version\" must be 1"},
      {"", "device", "[]", "key \"device\" must be an object"},
      {"device", "name", "\"\"", "must be a text that is not empty"},
      {"device", "name", "4090", "must be a text that is not empty"},
      {"device", "memory_bytes", "0.5", "a whole number of bytes"},
      {"device", "memory_bytes", "0", "more than 0 and at most 1e+15"},
      {"device", "memory_bytes", "-1", "more than 0"},
      {"device", "bytes_per_second", "0", "bytes per second, more than 0"},
      {"device", "bytes_per_second", "1e300", "at most 1e+15"},
      {"device", "bytes_per_second", "\"fast\"", "must be a number of bytes"},
      {"device", "launch_seconds", "-1e-6", "0 or more and at most 1"},
      {"device", "synchronise_seconds", "0", "of seconds, more than 0"},
      {"link", "copy_seconds", "2", "at most 1"},
      {"link", "up_bytes_per_second", "null", "must be a number"},
      {"host", "pool_bytes_per_second", "true", "must be a number"},
  };
  for (const Case& c : cases) {
    auto machine = nlohmann::json::parse(SomeMachine());
    auto& group = *c.group == '\0' ? machine : machine[c.group];
    group[c.key] = nlohmann::json::parse(c.value);
    ExpectRefused(machine.dump(), ErrorCode::kInvalidArgument, c.what);
    ExpectRefused(machine.dump(), ErrorCode::kInvalidArgument, c.key);
  }
}

TEST(Machine, RefusesWhatIsNoMachine) {
  ExpectRefused("[]", ErrorCode::kCorrupt, "not a JSON object");
  ExpectRefused("{\"a\": 1, \"a\": 2}", ErrorCode::kCorrupt, "key \"a\" twice");
  ExpectRefused(std::string(1000, '['), ErrorCode::kCorrupt, "nested too deep");
  ExpectRefused("{\"version\": 1e999}", ErrorCode::kCorrupt,
                "a number too large");
  ExpectRefused(std::string(kMaxMachineBytes + 1, ' '), ErrorCode::kCorrupt,
                "more than the 65536");
  auto machine = nlohmann::json::parse(SomeMachine());
  machine["link"]["bytes_per_secnod"] = 1;
  ExpectRefused(machine.dump(), ErrorCode::kInvalidArgument,
                "key \"link.bytes_per_secnod\" is unknown");
  machine["comment"] = nlohmann::json::array({1, 2});
  machine["link"].erase("bytes_per_secnod");
  EXPECT_TRUE(ParseMachine(machine.dump(), "m.json").has_value());
}

TEST(Machine, AFileThatIsNotThereIsNamed) {
  const os::TestFolder folder;
  const auto machine = ReadMachine(folder / "none.json");
  ASSERT_FALSE(machine.has_value());
  EXPECT_EQ(machine.error().code, ErrorCode::kNotFound);
  EXPECT_NE(machine.error().message.find("none.json"), std::string::npos);
}

}  // namespace
}  // namespace thermocline::device

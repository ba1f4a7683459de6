// `thermocline npu-compile`: what the program starts itself as, so that an
// NPU's compiler that hangs or dies takes nothing with it. Not in the help.
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "cli/commands.h"
#include "npu/openvino.h"

namespace thermocline::cli {
namespace {

constexpr const char* kCommand = "npu-compile";

}  // namespace

std::vector<std::string> NpuCompileCommand() {
  std::error_code error;
  const std::filesystem::path program =
      std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  return {program.string(), kCommand};
}

void AddNpuCompileCommand(CLI::App& parent, Action& action) {
  auto folder = std::make_shared<std::string>();
  CLI::App* app = parent.add_subcommand(
      kCommand, "Compiles the graph in a folder; for the program's own use");
  app->group("");
  app->add_option("FOLDER", *folder, "Where the graph is")->required();
  app->callback([folder, &action] {
    action = [folder] { return npu::RunCompileChild(*folder); };
  });
}

}  // namespace thermocline::cli

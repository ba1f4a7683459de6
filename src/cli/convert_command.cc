// `thermocline convert`: a Hugging Face folder to a GGUF file.
#include "import/convert.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>

#include "base/units.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/output_file.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "gguf/gguf.h"
#include "os/file.h"

namespace thermocline::cli {
namespace {

struct ConvertFlags {
  std::string folder;
  std::string output;
  DType dtype = DType::kF16;
};

Result<std::string> DescribeOutput(const std::string& path) {
  if (!std::filesystem::is_regular_file(path) || os::IsStandardOutput(path)) {
    return Wrote(path) + "\n";
  }
  TC_ASSIGN_OR_RETURN(const auto file, gguf::File::Open(path));
  uint64_t num_params = 0;
  for (const gguf::TensorInfo& tensor : file->tensors()) {
    num_params += tensor.shape.num_elems();
  }
  return fmt::format("{}: {}, {} parameters, {}\n", Wrote(path),
                     Plural(file->tensors().size(), "tensor"),
                     FormatCount(num_params),
                     FormatBytes(file->num_file_bytes()));
}

Status Run(const ConvertFlags& flags) {
  TC_RETURN_IF_ERROR(RefuseToReplaceInput(flags.output, FilesIn(flags.folder)));
  ProgressLine progress;
  TC_RETURN_IF_ERROR(
      importer::ConvertHuggingFace(flags.folder, flags.output,
                                   {.dtype = flags.dtype,
                                    .cancel = CancelFlag(),
                                    .progress = progress.callback()}));
  progress.Clear();
  TC_ASSIGN_OR_RETURN(const std::string description,
                      DescribeOutput(flags.output));
  return WriteReport(description, {flags.output});
}

}  // namespace

void AddConvertCommand(CLI::App& parent, Action& action) {
  auto flags = std::make_shared<ConvertFlags>();
  CLI::App* app = parent.add_subcommand(
      "convert", "Makes a GGUF file of a Hugging Face folder");
  AddRequiredPath(*app, "HF_FOLDER", flags->folder, "",
                  "Folder with config.json, a tokenizer and safetensors");
  AddRequiredPath(*app, "-o,--output,--outfile", flags->output, "FILE",
                  "GGUF file to write; replaced only when all went well");
  AddDType(*app, "--type,--outtype", flags->dtype,
           {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0},
           "Type of the matrices: f32, f16, bf16, q8_0, q4_0 (default f16)");
  app->footer(
      "Takes llama, mistral, mixtral, qwen2, qwen3, qwen3_moe, nemotron,\n"
      "arcee, falcon, opt, bamboo and prosparse models, and tokenizer.model,\n"
      "tokenizer.json, tiktoken tables, or vocab.json with merges.txt.\n\n"
      "Examples:\n"
      "  thermocline convert ./Qwen2.5-0.5B -o qwen-f16.gguf\n"
      "  thermocline convert ./Qwen2.5-0.5B -o qwen-q8_0.gguf --type q8_0");
  app->callback([flags, &action] { action = [flags] { return Run(*flags); }; });
}

}  // namespace thermocline::cli

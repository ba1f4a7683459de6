// `thermocline quantize`: a GGUF file to a smaller one.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/quote.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/output_file.h"
#include "cli/parse_text.h"
#include "cli/signals.h"
#include "cli/standard_io.h"
#include "cli/terminal.h"
#include "os/thread_pool.h"
#include "quantize/quantize.h"
#include "text/regex.h"

namespace thermocline::cli {
namespace {

struct QuantizeFlags {
  std::string input;
  std::string output;  // empty: none, which a dry run allows
  std::optional<std::string> output_argument;
  std::optional<std::string> output_flag;
  std::string type;
  quantize::QuantizeOptions options;
  int64_t num_threads = 0;
  bool dry_run = false;
  bool verbose = false;
};

const std::vector<DType> kTensorTypes = {
    DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ8_0,
    DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
    DType::kQ4_K, DType::kQ5_K, DType::kQ6_K};

// Bytes and tensors of one type.
struct TypeSum {
  uint64_t num_tensors = 0;
  uint64_t num_elems = 0;
  uint64_t num_bytes = 0;

  void Add(uint64_t elems, uint64_t bytes) {
    ++num_tensors;
    num_elems += elems;
    num_bytes += bytes;
  }
  double bits_per_weight() const {
    return num_elems == 0 ? 0.0
                          : 8.0 * static_cast<double>(num_bytes) /
                                static_cast<double>(num_elems);
  }
};

std::string FormatTensors(const quantize::QuantizePlan& plan) {
  std::string out;
  for (const quantize::QuantizedTensor& tensor : plan.tensors) {
    const gguf::TensorInfo& source = *tensor.source;
    out += fmt::format(
        "{:<36} {:<22} {:>5} -> {:<5} {:>11}{}\n", Escape(source.name),
        ToString(source.shape), NameOf(source.dtype), NameOf(tensor.dtype),
        FormatBytes(tensor.num_bytes), tensor.fell_back ? "  fell back" : "");
  }
  return out;
}

std::string FormatSums(const quantize::QuantizePlan& plan) {
  TypeSum before;
  TypeSum after;
  uint64_t num_fallen = 0;
  std::map<DType, TypeSum> by_type;
  for (const quantize::QuantizedTensor& tensor : plan.tensors) {
    const uint64_t num_elems = tensor.source->shape.num_elems();
    before.Add(num_elems, tensor.source->num_bytes);
    after.Add(num_elems, tensor.num_bytes);
    by_type[tensor.dtype].Add(num_elems, tensor.num_bytes);
    num_fallen += tensor.fell_back ? 1 : 0;
  }
  std::string out;
  for (const auto& [dtype, sum] : by_type) {
    out += fmt::format("{:<5} {:>5} {:7}  {:>9} weights  {:>11}\n",
                       NameOf(dtype), sum.num_tensors,
                       sum.num_tensors == 1 ? "tensor" : "tensors",
                       FormatCount(sum.num_elems), FormatBytes(sum.num_bytes));
  }
  if (num_fallen > 0) {
    out += fmt::format(
        "{} of {} tensors fell back to another type: their rows do not divide "
        "into its blocks\n",
        num_fallen, plan.tensors.size());
  }
  return out + fmt::format(
                   "weights {} -> {}, {:.2f} -> {:.2f} bits per weight\n",
                   FormatBytes(before.num_bytes), FormatBytes(after.num_bytes),
                   before.bits_per_weight(), after.bits_per_weight());
}

Status Run(const QuantizeFlags& flags) {
  TC_RETURN_IF_ERROR(
      RefuseToReplaceInput(flags.output, ModelFiles(flags.input)));
  TC_ASSIGN_OR_RETURN(const auto file, gguf::File::Open(flags.input));
  TC_ASSIGN_OR_RETURN(const auto plan,
                      quantize::PlanQuantization(*file, flags.options));
  std::string report;
  if (flags.verbose || flags.dry_run) report += FormatTensors(plan);
  report += FormatSums(plan);
  if (flags.dry_run) return WriteStdout(report);

  ProgressLine progress(ProgressUnit::kBytes);
  TC_RETURN_IF_ERROR(quantize::WriteQuantized(
      *file, plan, flags.output,
      {.num_threads = static_cast<int>(flags.num_threads),
       .cancel = CancelFlag(),
       .progress = progress.callback()}));
  progress.Clear();
  return WriteReport(fmt::format("{}{}: {}\n", report, Wrote(flags.output),
                                 gguf::InfoOf(flags.options.type).name),
                     {flags.output});
}

Result<DType> ParseTensorType(const std::string& text) {
  const auto dtype = ParseDType(text);
  if (dtype.has_value() && std::ranges::count(kTensorTypes, *dtype) > 0) {
    return *dtype;
  }
  return NotOneOf(text, NamesOf(kTensorTypes));
}

// Reads "PATTERN=TYPE".
Status StoreOverride(const std::string& text,
                     quantize::QuantizeOptions& options) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) {
    return Fail(ErrorCode::kInvalidArgument, "'{}' is not NAME=TYPE",
                Escape(text));
  }
  TC_ASSIGN_OR_RETURN(const DType dtype,
                      ParseTensorType(text.substr(equals + 1)));
  std::string pattern = text.substr(0, equals);
  TC_RETURN_IF_ERROR(text::Regex::Compile(pattern, text::RegexLimits::kUsual));
  options.overrides.push_back({std::move(pattern), dtype});
  return {};
}

void AddTensorType(CLI::App& app, const std::string& name,
                   std::optional<DType>& value,
                   const std::string& description) {
  AddParsed(app, name, "TYPE", description,
            [&value](const std::string& text) -> Status {
              TC_ASSIGN_OR_RETURN(value, ParseTensorType(text));
              return {};
            });
}

void AddTypeFlags(CLI::App& app, quantize::QuantizeOptions& options) {
  app.add_flag("--pure", options.pure,
               "One type for all matrices instead of the mix");
  app.add_flag("--leave-output-tensor", options.leave_output,
               "The head keeps its type");
  app.add_flag("--allow-requantize", options.allow_requantize,
               "Quantise what is quantised already, at a loss");
  AddTensorType(app, "--output-tensor-type", options.output_type,
                "Type of the head (of the embedding where that is the head)");
  AddTensorType(app, "--token-embedding-type", options.embedding_type,
                "Type of the embedding");
  AddParsed(app, "--tensor-type", "NAME=TYPE",
            "Type of the matrices whose names match NAME, a regular "
            "expression; may be given several times",
            [&options](const std::string& text) {
              return StoreOverride(text, options);
            });
}

std::string TypesForHelp() {
  std::string out = "Types:\n";
  for (const gguf::FileTypeInfo& info : gguf::FileTypes()) {
    out += fmt::format("  {:<7} {}\n", info.name, info.description);
  }
  return out;
}

[[noreturn]] void RefuseUsage(const std::string& message) {
  throw CLI::ValidationError(message);
}

std::string NamesOfFileTypes() {
  std::vector<std::string_view> names;
  for (const auto& known : gguf::FileTypes()) names.push_back(known.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// IN OUT TYPE, IN TYPE -o OUT, or for --dry-run IN TYPE. Throws usage errors.
void SettleNames(QuantizeFlags& flags) {
  std::string out = flags.output_argument.value_or("");
  // One name behind IN: TYPE where OUT is not needed there, or if it is one.
  if (flags.type.empty() &&
      (flags.output_flag || gguf::FindFileType(out) != nullptr)) {
    flags.type = std::exchange(out, "");
  }
  if (flags.output_flag && !out.empty()) {
    RefuseUsage("give the output as OUT or by -o, not both");
  }
  flags.output = flags.output_flag.value_or(out);
  if (flags.type.empty()) {
    RefuseUsage("TYPE is required: one of " + NamesOfFileTypes());
  }
  const gguf::FileTypeInfo* info = gguf::FindFileType(flags.type);
  if (info == nullptr) {
    RefuseUsage("TYPE: " +
                NotOneOf(flags.type, NamesOfFileTypes()).value().message);
  }
  if (flags.output.empty() && !flags.dry_run) RefuseUsage("OUT is required");
  flags.options.type = info->type;
}

}  // namespace

void AddQuantizeCommand(CLI::App& parent, Action& action) {
  auto flags = std::make_shared<QuantizeFlags>();
  CLI::App* app = parent.add_subcommand(
      "quantize", "Makes a GGUF file with smaller weights of another");
  AddRequiredPath(*app, "IN", flags->input, "",
                  "GGUF model in F16, BF16 or F32; of a split one, the first "
                  "file");
  // Optional for the parser: what is required depends on -o and --dry-run.
  AddPath(*app, "[OUT]", flags->output_argument, " ",
          "GGUF file to write; replaced only when all went well; not needed "
          "with -o or --dry-run");
  app->add_option("TYPE", flags->type, "Type of the weights, in any case")
      ->option_text("REQUIRED");
  AddPath(*app, "-o,--output", flags->output_flag, "FILE",
          "The same as OUT, in its place");
  AddInt(*app, "-t,--threads", flags->num_threads, 0,
         os::ThreadPool::kMaxThreads,
         "Threads; 0: one per physical core (default 0)");
  AddTypeFlags(*app, flags->options);
  app->add_flag("--dry-run", flags->dry_run,
                "Print what would become of each tensor, write nothing");
  app->add_flag("-v,--verbose", flags->verbose, "Report on each tensor");
  app->footer(TypesForHelp() +
              "Q4_K and Q5_K are short for the _M mixes.\n\n"
              "Examples:\n"
              "  thermocline quantize model-f16.gguf model.gguf Q4_K_M\n"
              "  thermocline quantize model-f16.gguf Q6_K --dry-run\n"
              "  thermocline quantize in.gguf out.gguf Q4_K_M "
              "--tensor-type ffn_down=q6_k");
  app->callback([flags, &action] {
    SettleNames(*flags);
    if (flags->options.leave_output && flags->options.output_type) {
      RefuseUsage(
          "--leave-output-tensor and --output-tensor-type exclude each other");
    }
    action = [flags] { return Run(*flags); };
  });
}

}  // namespace thermocline::cli

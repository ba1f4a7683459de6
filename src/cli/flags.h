// Flags on top of CLI11: strict numbers, llama.cpp's names, one look of help.
//
// All functions add a flag to `app` under `names` ("-n,--n-predict"), store
// what it is given in `value`, and show `description` in the help. The last of
// several occurrences counts. Wrong values are CLI::ValidationError, which the
// program turns into exit code 2. `value` outlives the parsing.
#ifndef THERMOCLINE_CLI_FLAGS_H_
#define THERMOCLINE_CLI_FLAGS_H_

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/status.h"
#include "tensor/dtype.h"

namespace thermocline::cli {

// A decimal integer in [min, max], shown as "N".
CLI::Option* AddInt(CLI::App& app, const std::string& names, int64_t& value,
                    int64_t min, int64_t max, const std::string& description);

// The same for an optional: stays empty when the flag is absent.
CLI::Option* AddInt(CLI::App& app, const std::string& names,
                    std::optional<int64_t>& value, int64_t min, int64_t max,
                    const std::string& description);

// Integers in [min, max] separated by commas, shown as "N,..."; those of
// several occurrences together.
CLI::Option* AddIntList(CLI::App& app, const std::string& names,
                        std::vector<int64_t>& value, int64_t min, int64_t max,
                        const std::string& description);

// A finite number in [min, max], shown as "X".
CLI::Option* AddFloat(CLI::App& app, const std::string& names, float& value,
                      double min, double max, const std::string& description);

// Text as it is, shown as `placeholder`.
CLI::Option* AddText(CLI::App& app, const std::string& names,
                     std::optional<std::string>& value,
                     const std::string& placeholder,
                     const std::string& description);

// A path, not empty.
CLI::Option* AddPath(CLI::App& app, const std::string& names,
                     std::optional<std::string>& value,
                     const std::string& placeholder,
                     const std::string& description);

// A path that must be given, not empty. A name without dashes ("FOLDER", with
// no placeholder) is a positional argument.
CLI::Option* AddRequiredPath(CLI::App& app, const std::string& names,
                             std::string& value, const std::string& placeholder,
                             const std::string& description);

// A usage error unless the model is given once, as MODEL or by --model: for the
// callback of a command that takes both.
void CheckOneModel(const CLI::App& app);

// A usage error if anything is given but `useful` ("MODEL", "--json"): the rest
// would be ignored without a word. `where` ends the message: "with --stats".
void RefuseAllBut(const CLI::App& app,
                  std::initializer_list<const char*> useful,
                  const std::string& where);

// One of `types`, by name in any case ("q8_0").
CLI::Option* AddDType(CLI::App& app, const std::string& names, DType& value,
                      std::vector<DType> types, const std::string& description);

// Anything: `store` is called with the text at each occurrence; its error's
// message becomes the usage error.
CLI::Option* AddParsed(CLI::App& app, const std::string& names,
                       const std::string& placeholder,
                       const std::string& description,
                       std::function<Status(const std::string&)> store);

// "-n, --n-predict" from "-n,--n-predict": for messages, as a user types them.
std::string DisplayNames(const std::string& names);

// The decimal number that a float flag was typed as, to six places: 0.3 of the
// float next to it.
double DecimalNear(float value);

// "f16": the name as flags and reports write it.
std::string LowerName(DType dtype);

// "f32, f16, q8_0": the names of types, instruction sets, modes and the like,
// likewise.
template <typename Values>
std::string NamesOf(const Values& values) {
  std::vector<std::string> names;
  for (const auto value : values) {
    if constexpr (std::is_same_v<decltype(value), const DType>) {
      names.push_back(LowerName(value));
    } else {
      names.emplace_back(NameOf(value));
    }
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

// The help page's look; give it to the root, subcommands inherit it.
std::shared_ptr<CLI::FormatterBase> MakeHelpFormatter();

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_FLAGS_H_

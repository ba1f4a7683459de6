#include "cli/flags.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <memory>
#include <string_view>
#include <utility>

#include "cli/parse_text.h"
#include "cli/remedies.h"

namespace thermocline::cli {
namespace {

// Spelled with one dash, as in llama.cpp; the parser knows them with two.
constexpr std::string_view kSingleDashNames[] = {
    "--cmoe", "--cnv",    "--ctk", "--ctv",  "--ncmoe",
    "--ngl",  "--no-cnv", "--np",  "--npl",  "--ot",
    "--pg",   "--st",     "--sys", "--sysf", "--ub"};

// CLI11's page with flags spelled as users of llama.cpp type them.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(32); }

  std::string make_option_name(const CLI::Option* option,
                               bool is_positional) const override {
    return is_positional ? option->get_name(true, false)
                         : DisplayNames(option->get_name(false, true));
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    const bool must_be_told =
        option->get_required() && !option->get_positional();
    return option->get_description() + (must_be_told ? " (required)" : "");
  }

  std::string make_usage(const CLI::App* app,
                         std::string /*name*/) const override {
    std::string path = app->get_name();
    for (const CLI::App* parent = app->get_parent(); parent != nullptr;
         parent = parent->get_parent()) {
      path = parent->get_name() + " " + path;
    }
    const bool has_commands =
        !app->get_subcommands([](const CLI::App*) { return true; }).empty();
    for (const CLI::Option* option : app->get_options(
             [](const CLI::Option* o) { return o->get_positional(); })) {
      path += " " + option->get_name(true, false);
    }
    const char* command = !has_commands      ? ""
                          : RunsItself(*app) ? "[COMMAND] "
                                             : "COMMAND ";
    return fmt::format("\nUsage: {} {}[FLAGS]\n", path, command);
  }

  // What a flag goes with is in its description.
  std::string make_option_opts(const CLI::Option* option) const override {
    const bool is_flag = option->get_items_expected_max() == 0;
    return is_flag ? "" : CLI::Formatter::make_option_opts(option);
  }

 private:
  // Whether it has flags of its own, besides those for help.
  static bool RunsItself(const CLI::App& app) {
    return std::ranges::any_of(app.get_options(), [&](const CLI::Option* o) {
      return o != app.get_help_ptr() && o != app.get_version_ptr();
    });
  }
};

// What stores a path in a string or an optional one.
template <typename Value>
auto PathInto(Value& value) {
  return [&value](const std::string& text) -> Status {
    if (text.empty()) {
      return Fail(ErrorCode::kInvalidArgument, "the path is empty");
    }
    value = text;
    return {};
  };
}

}  // namespace

CLI::Option* AddParsed(CLI::App& app, const std::string& names,
                       const std::string& placeholder,
                       const std::string& description,
                       std::function<Status(const std::string&)> store) {
  // Strings only: CLI11's own conversions take octal, wrap around, and split
  // "[a,b]". Called at each occurrence, so that the last one counts.
  const auto call = [names, store](const CLI::results_t& results) {
    const Status status = store(results.back());
    if (status.has_value()) return true;
    throw CLI::ValidationError(DisplayNames(names), Explain(status.error()));
  };
  return app.add_option(names, call, description)
      ->option_text(placeholder)
      ->trigger_on_parse();
}

CLI::Option* AddInt(CLI::App& app, const std::string& names, int64_t& value,
                    int64_t min, int64_t max, const std::string& description) {
  return AddParsed(app, names, "N", description,
                   [&value, min, max](const std::string& text) -> Status {
                     TC_ASSIGN_OR_RETURN(value, ParseInt(text, min, max));
                     return {};
                   });
}

CLI::Option* AddInt(CLI::App& app, const std::string& names,
                    std::optional<int64_t>& value, int64_t min, int64_t max,
                    const std::string& description) {
  return AddParsed(app, names, "N", description,
                   [&value, min, max](const std::string& text) -> Status {
                     TC_ASSIGN_OR_RETURN(value, ParseInt(text, min, max));
                     return {};
                   });
}

CLI::Option* AddIntList(CLI::App& app, const std::string& names,
                        std::vector<int64_t>& value, int64_t min, int64_t max,
                        const std::string& description) {
  return AddParsed(app, names, "N,...", description,
                   [&value, min, max, is_first = true](
                       const std::string& text) mutable -> Status {
                     TC_ASSIGN_OR_RETURN(const std::vector<int64_t> more,
                                         ParseIntList(text, min, max));
                     if (std::exchange(is_first, false)) value.clear();
                     value.insert(value.end(), more.begin(), more.end());
                     return {};
                   });
}

CLI::Option* AddFloat(CLI::App& app, const std::string& names, float& value,
                      double min, double max, const std::string& description) {
  return AddParsed(app, names, "X", description,
                   [&value, min, max](const std::string& text) -> Status {
                     TC_ASSIGN_OR_RETURN(const double parsed,
                                         ParseFloat(text, min, max));
                     value = static_cast<float>(parsed);
                     return {};
                   });
}

CLI::Option* AddText(CLI::App& app, const std::string& names,
                     std::optional<std::string>& value,
                     const std::string& placeholder,
                     const std::string& description) {
  return AddParsed(app, names, placeholder, description,
                   [&value](const std::string& text) -> Status {
                     value = text;
                     return {};
                   });
}

CLI::Option* AddPath(CLI::App& app, const std::string& names,
                     std::optional<std::string>& value,
                     const std::string& placeholder,
                     const std::string& description) {
  return AddParsed(app, names, placeholder, description, PathInto(value));
}

CLI::Option* AddRequiredPath(CLI::App& app, const std::string& names,
                             std::string& value, const std::string& placeholder,
                             const std::string& description) {
  return AddParsed(app, names, placeholder, description, PathInto(value))
      ->required();
}

void CheckOneModel(const CLI::App& app) {
  const size_t positional = app.get_option("MODEL")->count();
  const size_t named = app.get_option("--model")->count();
  if (positional + named == 1) return;
  throw CLI::ValidationError(positional > 0
                                 ? "the model is given twice: MODEL and -m FILE"
                                 : "the model is missing: MODEL or -m FILE");
}

void RefuseAllBut(const CLI::App& app,
                  std::initializer_list<const char*> useful,
                  const std::string& where) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0) continue;
    if (std::ranges::any_of(useful, [option](const char* name) {
          return option->check_name(name);
        })) {
      continue;
    }
    throw CLI::ValidationError(DisplayNames(option->get_name(false, true)),
                               "has no effect " + where);
  }
}

CLI::Option* AddDType(CLI::App& app, const std::string& names, DType& value,
                      std::vector<DType> types,
                      const std::string& description) {
  return AddParsed(
      app, names, "TYPE", description,
      [&value, types](const std::string& text) -> Status {
        const std::optional<DType> dtype = ParseDType(text);
        if (dtype.has_value() &&
            std::find(types.begin(), types.end(), *dtype) != types.end()) {
          value = *dtype;
          return {};
        }
        return NotOneOf(text, NamesOf(types));
      });
}

std::string DisplayNames(const std::string& names) {
  std::string out;
  for (const std::string& name : CLI::detail::split(names, ',')) {
    const bool single_dash = std::ranges::count(kSingleDashNames, name) > 0;
    out += (out.empty() ? "" : ", ") + (single_dash ? name.substr(1) : name);
  }
  return out;
}

double DecimalNear(float value) {
  return std::round(double{value} * 1e6) / 1e6;
}

std::string LowerName(DType dtype) {
  std::string name(NameOf(dtype));
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  return name;
}

std::shared_ptr<CLI::FormatterBase> MakeHelpFormatter() {
  return std::make_shared<HelpFormatter>();
}

}  // namespace thermocline::cli

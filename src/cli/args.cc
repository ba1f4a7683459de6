#include "cli/args.h"

#include <algorithm>

namespace thermocline::cli {
namespace {

// Not std::isalpha, which asks the locale.
bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool IsSingleDashName(std::string_view arg) {
  return arg.size() > 2 && arg[0] == '-' && IsLetter(arg[1]) &&
         IsLetter(arg[2]);
}

}  // namespace

std::vector<std::string> RewriteArgs(std::span<const std::string> args,
                                     const TakesValueFn& takes_value) {
  std::vector<std::string> out;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--") {
      out.insert(out.end(), args.begin() + static_cast<ptrdiff_t>(i),
                 args.end());
      break;
    }
    out.push_back(IsSingleDashName(args[i]) ? "-" + args[i] : args[i]);
    if (takes_value(out.back()) && i + 1 < args.size()) {
      out.push_back(args[++i]);
    }
  }
  return out;
}

std::string AsTyped(const std::string& arg,
                    std::span<const std::string> typed_args) {
  if (!arg.starts_with("--") || std::ranges::count(typed_args, arg) > 0) {
    return arg;
  }
  const std::string with_one_dash = arg.substr(1);
  return std::ranges::count(typed_args, with_one_dash) > 0 ? with_one_dash
                                                           : arg;
}

}  // namespace thermocline::cli

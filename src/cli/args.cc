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

std::string AsParsed(const std::string& arg) {
  std::string out = IsSingleDashName(arg) ? "-" + arg : arg;
  if (!out.starts_with("--")) return out;
  const size_t name_size = std::min(out.find('='), out.size());
  std::replace(out.begin(), out.begin() + static_cast<ptrdiff_t>(name_size),
               '_', '-');
  return out;
}

std::vector<std::string> RewriteArgs(std::span<const std::string> args,
                                     const TakesValueFn& takes_value) {
  std::vector<std::string> out;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--") {
      out.insert(out.end(), args.begin() + static_cast<ptrdiff_t>(i),
                 args.end());
      break;
    }
    out.push_back(AsParsed(args[i]));
    if (takes_value(out.back()) && i + 1 < args.size()) {
      out.push_back(args[++i]);
    }
  }
  return out;
}

std::string AsTyped(const std::string& arg,
                    std::span<const std::string> typed_args) {
  if (std::ranges::count(typed_args, arg) > 0) return arg;
  const auto typed = std::ranges::find(typed_args, arg, AsParsed);
  return typed == typed_args.end() ? arg : *typed;
}

}  // namespace thermocline::cli

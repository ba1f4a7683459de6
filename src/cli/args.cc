#include "cli/args.h"

#include <algorithm>
#include <iterator>

namespace thermocline::cli {
namespace {

constexpr std::string_view kSingleDashNames[] = {
    "bs",   "cb",   "cd",   "cnv", "cram", "ctk",  "ctkd",   "ctv",  "ctvd",
    "dev",  "devd", "dkvc", "dt",  "fa",   "fitc", "fitt",   "hf",   "hff",
    "hfrv", "hft",  "jf",   "kvu", "ld",   "lm",   "lv",     "lzm",  "md",
    "mg",   "mm",   "mmu",  "ngl", "ngld", "nkvo", "no-cnv", "nocb", "nopo",
    "np",   "ot",   "otd",  "sm",  "sp",   "sps",  "st",     "sys",  "sysf",
    "tb",   "tbd",  "td",   "ts",  "ub"};

// The name in "-name" or "-name=value" if it is one of ours, else empty.
std::string_view SingleDashName(std::string_view arg) {
  if (arg.size() < 3 || arg[0] != '-' || arg[1] == '-') return {};
  const std::string_view name = arg.substr(1, arg.find('=') - 1);
  return IsSingleDashName(name) ? name : std::string_view();
}

}  // namespace

bool IsSingleDashName(std::string_view name) {
  return std::ranges::find(kSingleDashNames, name) !=
         std::end(kSingleDashNames);
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
    out.push_back(SingleDashName(args[i]).empty() ? args[i] : "-" + args[i]);
    if (takes_value(out.back()) && i + 1 < args.size()) {
      out.push_back(args[++i]);
    }
  }
  return out;
}

std::string FlagAsTyped(std::string_view flag) {
  if (!flag.starts_with("--")) return std::string(flag);
  const std::string_view name = flag.substr(2, flag.find('=') - 2);
  return std::string(IsSingleDashName(name) ? flag.substr(1) : flag);
}

}  // namespace thermocline::cli

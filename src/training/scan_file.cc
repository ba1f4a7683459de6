#include "training/scan_file.h"

#include <cmath>
#include <utility>

#include "pack/part_file.h"

namespace thermocline::training {
namespace {

// The figures of a choice by their keys.
template <typename Choice, typename Visit>
Status ForEachFigure(Choice& choice, Visit&& visit) {
  TC_RETURN_IF_ERROR(visit("thermocline.work.density", choice.density));
  TC_RETURN_IF_ERROR(visit("thermocline.work.perplexity", choice.perplexity));
  return visit("thermocline.work.dense_perplexity", choice.dense_perplexity);
}

bool IsValid(const DensityChoice& choice) {
  return choice.density >= 0 && choice.density <= 1 &&
         std::isfinite(choice.perplexity) && choice.perplexity > 0 &&
         std::isfinite(choice.dense_perplexity) && choice.dense_perplexity > 0;
}

// Nothing where the file has no choice.
Result<std::optional<DensityChoice>> ReadChoice(const gguf::File& file) {
  DensityChoice choice;
  int num_found = 0;
  TC_RETURN_IF_ERROR(
      ForEachFigure(choice, [&](const char* key, double& value) -> Status {
        TC_ASSIGN_OR_RETURN(const auto stored, file.Float(key));
        if (!stored) return {};
        ++num_found;
        value = *stored;
        return {};
      }));
  if (num_found == 0) return std::nullopt;
  if (num_found != 3 || !IsValid(choice)) {
    return Fail(ErrorCode::kCorrupt,
                "{}: its choice of thresholds is not whole: density {}, "
                "perplexity {}, dense {}",
                file.path(), choice.density, choice.perplexity,
                choice.dense_perplexity);
  }
  return choice;
}

}  // namespace

Status WriteScanFile(const ScanFile& scan, const model::Config& config,
                     const std::string& path) {
  pack::PreparedParts parts;
  parts.self_test = scan.self_test;
  parts.thresholds = scan.thresholds;
  if (scan.choice) {
    TC_RETURN_IF_ERROR(ForEachFigure(
        *scan.choice, [&](const char* key, double value) -> Status {
          parts.keys.push_back(
              {.key = key, .type = gguf::ValueType::kF64, .value = value});
          return {};
        }));
  }
  return pack::WriteParts(parts, config, path);
}

Result<ScanFile> ReadScanFile(const gguf::File& file,
                              const model::Config& config) {
  TC_ASSIGN_OR_RETURN(pack::PreparedParts parts, pack::ReadParts(file, config));
  if (!std::cmp_equal(parts.self_test.size(), config.num_layers)) {
    return Fail(ErrorCode::kCorrupt, "{}: has samples of {} layers, not of {}",
                file.path(), parts.self_test.size(), config.num_layers);
  }
  ScanFile scan = {.self_test = std::move(parts.self_test),
                   .thresholds = std::move(parts.thresholds)};
  TC_ASSIGN_OR_RETURN(scan.choice, ReadChoice(file));
  if (scan.choice && scan.thresholds.empty()) {
    return Fail(ErrorCode::kCorrupt,
                "{}: says how thresholds were chosen, and has none",
                file.path());
  }
  return scan;
}

Result<ScanFile> ReadScanFile(const std::string& path,
                              const model::Config& config) {
  TC_ASSIGN_OR_RETURN(const auto file, gguf::File::Open(path));
  return ReadScanFile(*file, config);
}

}  // namespace thermocline::training

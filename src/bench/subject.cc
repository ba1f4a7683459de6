#include "bench/subject.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/quote.h"
#include "base/units.h"
#include "bench/model_title.h"

namespace thermocline::bench {
namespace {

// A cell of a Markdown table: a bar would end it.
std::string Cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

Subject SubjectOf(const model::Model& model,
                  const engine::SessionOptions& options) {
  const ModelTitle title = TitleOf(model);
  return {.model_name = title.name,
          .model_path = model.file().path(),
          .isa = std::string(NameOf(options.isa)),
          .batch = options.batch,
          .k_type = options.k_type,
          .v_type = options.v_type,
          .model_bytes = title.num_bytes,
          .num_params = title.num_params,
          .num_layers = model.config().num_layers};
}

nlohmann::ordered_json SubjectJson(const Subject& subject, int num_threads) {
  return {{"build_commit", subject.build},
          {"cpu_info", subject.cpu},
          {"model_filename", subject.model_path},
          {"model_type", subject.model_name},
          {"model_size", subject.model_bytes},
          {"model_n_params", subject.num_params},
          {"backends", "CPU"},
          {"isa", subject.isa},
          {"ffn", subject.ffn},
          {"n_batch", subject.batch},
          {"n_threads", num_threads},
          {"type_k", NameOf(subject.k_type)},
          {"type_v", NameOf(subject.v_type)}};
}

std::string SubjectCsv(const Subject& subject, int num_threads) {
  return fmt::format("{},{},{},{},{},{},CPU,{},{},{},{},{},{},",
                     QuoteCsv(subject.build), QuoteCsv(subject.cpu),
                     QuoteCsv(subject.model_path), QuoteCsv(subject.model_name),
                     subject.model_bytes, subject.num_params, subject.isa,
                     subject.ffn, subject.batch, num_threads,
                     NameOf(subject.k_type), NameOf(subject.v_type));
}

std::string SubjectHeader() {
  return fmt::format("| {:<30} | {:>10} | {:>10} | {:<10} | {:>7} |", "model",
                     "size", "params", "backend", "threads");
}

std::string SubjectRule() {
  return fmt::format("| {:-<30} | {:->9}: | {:->9}: | {:-<10} | {:->6}: |", "",
                     "", "", "", "");
}

std::string SubjectCells(const Subject& subject, int num_threads) {
  return fmt::format("| {:<30} | {:>10} | {:>10} | {:<10} | {:>7} |",
                     Cell(subject.model_name), FormatBytes(subject.model_bytes),
                     FormatCount(subject.num_params), "CPU", num_threads);
}

}  // namespace thermocline::bench

// What a table of speeds is about, and the columns that every table begins
// with.
#ifndef THERMOCLINE_BENCH_SUBJECT_H_
#define THERMOCLINE_BENCH_SUBJECT_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "engine/session.h"
#include "model/model.h"

namespace thermocline::bench {

struct Subject {
  std::string model_name;  // "llama 8.80 M F16"
  std::string model_path;
  std::string build;  // "0.1.0"; the caller's to fill in, like cpu
  std::string cpu;    // "AMD EPYC 7763 64-Core Processor"; empty if unknown
  std::string isa;    // "avx512-vnni"
  std::string ffn;    // which neurons were computed: "dense"
  int64_t batch = 0;
  DType k_type = DType::kF16, v_type = DType::kF16;
  uint64_t model_bytes = 0;
  uint64_t num_params = 0;
  size_t num_layers = 0;
};

// Without build and cpu, and without ffn, which a session knows.
Subject SubjectOf(const model::Model& model,
                  const engine::SessionOptions& options);

// llama-bench's keys, "build_commit" to "type_v".
nlohmann::ordered_json SubjectJson(const Subject& subject, int num_threads);

// The same as a line's first columns: their names, and their values; each with
// a comma behind it.
inline constexpr std::string_view kSubjectCsvNames =
    "build_commit,cpu_info,model_filename,model_type,model_size,"
    "model_n_params,backends,isa,ffn,n_batch,n_threads,type_k,type_v,";
std::string SubjectCsv(const Subject& subject, int num_threads);

// "| model | size | params | backend | threads |" of a Markdown table: its
// first line, the line below that, and a row.
std::string SubjectHeader();
std::string SubjectRule();
std::string SubjectCells(const Subject& subject, int num_threads);

}  // namespace thermocline::bench

#endif  // THERMOCLINE_BENCH_SUBJECT_H_

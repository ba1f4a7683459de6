#include "planner/ilp_solver.h"

#ifdef TC_CBC
#include <coin/Cbc_C_Interface.h>
#include <dlfcn.h>
#endif

#include <algorithm>
#include <cstddef>
#include <limits>

namespace thermocline::planner {

#ifdef TC_CBC
namespace {

// CBC's own infinity.
constexpr double kNoLimit = std::numeric_limits<double>::max();

constexpr char kLibrary[] = "libCbcSolver.so.3";

// Loaded when a program is to be solved, and kept: whoever solves none needs no
// CBC, nor the linear algebra that it brings.
struct Cbc {
  decltype(&Cbc_newModel) make = nullptr;
  decltype(&Cbc_deleteModel) free = nullptr;
  decltype(&Cbc_loadProblem) load = nullptr;
  decltype(&Cbc_setObjSense) set_sense = nullptr;
  decltype(&Cbc_setInteger) set_integer = nullptr;
  decltype(&Cbc_setParameter) set_parameter = nullptr;
  decltype(&Cbc_solve) solve = nullptr;
  decltype(&Cbc_isProvenOptimal) is_optimal = nullptr;
  decltype(&Cbc_numberSavedSolutions) num_solutions = nullptr;
  decltype(&Cbc_getColSolution) solution = nullptr;
  decltype(&Cbc_getBestPossibleObjValue) bound = nullptr;
};

Error CannotLoad() {
  const char* reason = ::dlerror();
  return {
      ErrorCode::kUnsupported,
      fmt::format("{}: cannot be loaded: {}; integer programs are solved "
                  "with CBC, Debian's package coinor-libcbc3",
                  kLibrary, reason == nullptr ? "no reason given" : reason)};
}

Result<Cbc> LoadCbc() {
  void* library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return tl::unexpected(CannotLoad());
  const auto find = [&]<typename Function>(const char* name, Function& to) {
    to = reinterpret_cast<Function>(::dlsym(library, name));
    return to != nullptr;
  };
  Cbc cbc;
  const bool has_all = find("Cbc_newModel", cbc.make) &&
                       find("Cbc_deleteModel", cbc.free) &&
                       find("Cbc_loadProblem", cbc.load) &&
                       find("Cbc_setObjSense", cbc.set_sense) &&
                       find("Cbc_setInteger", cbc.set_integer) &&
                       find("Cbc_setParameter", cbc.set_parameter) &&
                       find("Cbc_solve", cbc.solve) &&
                       find("Cbc_isProvenOptimal", cbc.is_optimal) &&
                       find("Cbc_numberSavedSolutions", cbc.num_solutions) &&
                       find("Cbc_getColSolution", cbc.solution) &&
                       find("Cbc_getBestPossibleObjValue", cbc.bound);
  if (!has_all) return tl::unexpected(CannotLoad());
  return cbc;
}

const Result<Cbc>& TheCbc() {
  static const Result<Cbc> cbc = LoadCbc();
  return cbc;
}

// The program as CBC wants it, column by column: a variable for each group,
// then one for each layer, which says whether anything of it is there.
class CbcProgram {
 public:
  CbcProgram(const Cbc& cbc, const IlpModel& model)
      : cbc_(cbc), model_(model), unit_(UnitOf(model)) {
    AddRow(-kNoLimit, model.capacity / unit_);
    for (size_t i = 0; i < model.layers.size(); ++i) {
      AddRow(0.0, kNoLimit);   // inequality 7
      AddRow(-kNoLimit, 0.0);  // inequality 8
    }
    for (size_t i = 0; i < model.layers.size(); ++i) AddGroups(i);
    for (size_t i = 0; i < model.layers.size(); ++i) AddLayer(i);
  }

  IlpAnswer Solve(double max_seconds, double max_gap) {
    Cbc_Model* program = cbc_.make();
    const auto num_columns = static_cast<int>(objective_.size());
    const std::vector<double> low(objective_.size(), 0.0);
    const std::vector<double> high(objective_.size(), 1.0);
    cbc_.load(program, num_columns, static_cast<int>(row_low_.size()),
              starts_.data(), rows_.data(), values_.data(), low.data(),
              high.data(), objective_.data(), row_low_.data(),
              row_high_.data());
    cbc_.set_sense(program, -1.0);
    for (int i = 0; i < num_columns; ++i) cbc_.set_integer(program, i);
    const auto set = [&](const char* name, const std::string& value) {
      cbc_.set_parameter(program, name, value.c_str());
    };
    set("logLevel", "0");
    set("timeMode", "elapsed");
    set("seconds", fmt::format("{}", max_seconds));
    set("ratioGap", fmt::format("{}", max_gap));
    cbc_.solve(program);
    IlpAnswer answer = Take(program);
    cbc_.free(program);
    return answer;
  }

 private:
  // Coefficients near 1 keep tolerances meaningful.
  static double UnitOf(const IlpModel& model) {
    double most = 1.0;
    for (const IlpLayer& layer : model.layers) {
      for (const IlpGroup& group : layer.groups) {
        most = std::max(most, group.bytes);
      }
    }
    return most;
  }

  void AddRow(double low, double high) {
    row_low_.push_back(low);
    row_high_.push_back(high);
  }
  static int AtLeast(size_t layer_idx) {
    return static_cast<int>(1 + 2 * layer_idx);
  }
  static int AtMost(size_t layer_idx) { return AtLeast(layer_idx) + 1; }

  void Put(int row, double value) {
    rows_.push_back(row);
    values_.push_back(value);
  }
  void EndColumn(double impact) {
    objective_.push_back(impact);
    starts_.push_back(static_cast<int>(rows_.size()));
  }

  void AddGroups(size_t layer_idx) {
    for (const IlpGroup& group : model_.layers[layer_idx].groups) {
      Put(0, group.bytes / unit_);
      Put(AtLeast(layer_idx), static_cast<double>(group.items.size()));
      Put(AtMost(layer_idx), 1.0);
      EndColumn(group.impact);
    }
  }
  void AddLayer(size_t layer_idx) {
    const IlpLayer& layer = model_.layers[layer_idx];
    Put(0, layer.bytes / unit_);
    Put(AtLeast(layer_idx), -static_cast<double>(layer.least));
    Put(AtMost(layer_idx), -static_cast<double>(layer.groups.size()));
    EndColumn(0.0);
  }

  // Out of time it may have found nothing, which always is an answer.
  IlpAnswer Take(Cbc_Model* program) const {
    IlpAnswer answer;
    const bool is_found =
        cbc_.is_optimal(program) != 0 || cbc_.num_solutions(program) > 0;
    const double* values = is_found ? cbc_.solution(program) : nullptr;
    size_t column = 0;
    for (const IlpLayer& layer : model_.layers) {
      std::vector<bool>& there =
          answer.is_there.emplace_back(layer.groups.size());
      for (size_t g = 0; g < there.size(); ++g, ++column) {
        there[g] = values != nullptr && values[column] > 0.5;
        if (there[g]) answer.impact += layer.groups[g].impact;
      }
    }
    answer.is_optimal = cbc_.is_optimal(program) != 0;
    answer.bound = std::max(answer.impact, cbc_.bound(program));
    return answer;
  }

  const Cbc& cbc_;
  const IlpModel& model_;
  double unit_;
  std::vector<int> starts_ = {0}, rows_;
  std::vector<double> values_, objective_, row_low_, row_high_;
};

bool HasGroups(const IlpModel& model) {
  return std::ranges::any_of(model.layers, [](const IlpLayer& layer) {
    return !layer.groups.empty();
  });
}

IlpAnswer Nothing(const IlpModel& model) {
  IlpAnswer answer;
  for (const IlpLayer& layer : model.layers) {
    answer.is_there.emplace_back(layer.groups.size());
  }
  answer.is_optimal = true;
  return answer;
}

double BytesOf(const IlpModel& model, const IlpAnswer& answer) {
  double bytes = 0.0;
  for (size_t i = 0; i < model.layers.size(); ++i) {
    bool is_any = false;
    for (size_t g = 0; g < model.layers[i].groups.size(); ++g) {
      if (!answer.is_there[i][g]) continue;
      bytes += model.layers[i].groups[g].bytes;
      is_any = true;
    }
    if (is_any) bytes += model.layers[i].bytes;
  }
  return bytes;
}

}  // namespace

bool HasIlpSolver() { return TheCbc().has_value(); }

Result<IlpAnswer> SolveIlpModel(const IlpModel& model, double max_seconds,
                                double max_gap) {
  IlpAnswer answer = Nothing(model);
  // CBC would print that it has nothing to do.
  if (!HasGroups(model)) return answer;
  TC_RETURN_IF_ERROR(TheCbc());
  answer = CbcProgram(*TheCbc(), model).Solve(max_seconds, max_gap);
  // A tolerance of CBC's is a byte too many with us.
  if (BytesOf(model, answer) <= model.capacity) return answer;
  IlpModel smaller = model;
  smaller.capacity *= 1.0 - 1e-5;
  const double bound = answer.bound;
  answer = CbcProgram(*TheCbc(), smaller).Solve(max_seconds, max_gap);
  answer.bound = bound;
  answer.is_optimal = false;
  if (BytesOf(model, answer) <= model.capacity) return answer;
  return Fail(ErrorCode::kResourceExhausted,
              "CBC gives a placement of {} bytes where there are {}",
              BytesOf(model, answer), model.capacity);
}

#else  // TC_CBC

bool HasIlpSolver() { return false; }

Result<IlpAnswer> SolveIlpModel(const IlpModel& /*model*/,
                                double /*max_seconds*/, double /*max_gap*/) {
  return Fail(ErrorCode::kUnsupported,
              "no integer program can be solved: built without CBC");
}

#endif  // TC_CBC

}  // namespace thermocline::planner

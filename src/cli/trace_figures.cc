#include "cli/trace_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/units.h"
#include "neuron/text_heat.h"

namespace thermocline::cli {
namespace {

using neuron::TraceReader;
using neuron::TraceSets;
using neuron::TraceToken;

// More than any model has: 1 GiB at most, whatever the size of the file.
constexpr uint64_t kMaxCountedNeurons = uint64_t{1} << 26;
constexpr size_t kMaxSeries = 4;

Status CheckSize(const TraceReader& reader) {
  const neuron::TraceHeader& header = reader.header();
  const uint64_t num_neurons = uint64_t{header.num_layers} * header.num_neurons;
  if (num_neurons <= kMaxCountedNeurons &&
      reader.totals().num_tokens <= neuron::kMaxProfileTokens) {
    return {};
  }
  return Fail(
      ErrorCode::kUnsupported, "{}: {} of {} of {} are too many to count",
      reader.name(), Plural(reader.totals().num_tokens, "token"),
      Plural(header.num_layers, "layer"), Plural(header.num_neurons, "neuron"));
}

// The first reading of one kind of sets.
class Counter {
 public:
  Counter(size_t num_layers, size_t num_units, uint64_t num_texts)
      : profile_(num_layers, num_units),
        texts_(num_layers, num_units, num_texts) {}

  void BeginText() {
    profile_.BeginSequence();
    texts_.BeginText();
  }
  void Add(const TraceSets& sets) {
    for (size_t l = 0; l < sets.size(); ++l) {
      profile_.Add(l, sets[l]);
      texts_.Add(l, sets[l]);
    }
  }
  const neuron::TextHeat& texts() const { return texts_; }

  UnitFigures Take() {
    texts_.Finish();
    UnitFigures figures = {.profile = profile_.profile()};
    for (size_t l = 0; l < figures.profile.layers.size(); ++l) {
      figures.texts.push_back(texts_.InLayer(l));
    }
    return figures;
  }

 private:
  neuron::ProfileBuilder profile_;
  neuron::TextHeat texts_;
};

neuron::DynamicsBuilder DynamicsOf(const UnitFigures& figures) {
  std::vector<std::vector<uint32_t>> counts;
  for (const neuron::LayerProfile& layer : figures.profile.layers) {
    counts.push_back(layer.counts);
  }
  return neuron::DynamicsBuilder(counts);
}

std::vector<NamingFigures> NamingOf(const neuron::TraceHeader& header) {
  std::vector<NamingFigures> named;
  const auto add = [&](std::optional<uint32_t> lookahead) {
    named.push_back({.lookahead = lookahead,
                     .layers = std::vector<neuron::Naming>(header.num_layers)});
  };
  if (header.has_candidates) add(std::nullopt);
  for (uint32_t k = 0; k <= neuron::kMaxTraceLookahead; ++k) {
    if (header.HasLookahead(k)) add(k);
  }
  return named;
}

std::vector<ActivitySeries> SeriesOf(size_t num_layers) {
  std::vector<ActivitySeries> series;
  const size_t count = std::min(num_layers, kMaxSeries);
  for (size_t i = 0; i < count; ++i) {
    const size_t layer = count == 1 ? 0 : i * (num_layers - 1) / (count - 1);
    series.push_back({.layer_idx = layer, .tokens = {}});
  }
  return series;
}

class FigureReader {
 public:
  FigureReader(TraceReport& report, const ProgressFn& progress)
      : report_(report), progress_(progress) {}

  // Who fires how often, in which text.
  Status Count(TraceReader reader) {
    const neuron::TraceHeader& header = report_.header;
    const uint64_t num_texts = report_.totals.num_sequences;
    Counter neurons(header.num_layers, header.num_neurons, num_texts);
    std::optional<Counter> experts;
    if (header.num_experts > 0) {
      experts.emplace(header.num_layers, header.num_experts, num_texts);
    }
    report_.named = NamingOf(header);
    const Status status = ForTokens(reader, [&](const TraceToken& token) {
      if (token.begins_sequence) {
        neurons.BeginText();
        if (experts) experts->BeginText();
        KeepName(reader, neurons.texts());
      }
      if (token.is_generated) ++report_.num_generated;
      neurons.Add(fired_);
      if (experts) experts->Add(reader.experts());
      AddNamed(reader);
    });
    TC_RETURN_IF_ERROR(status);
    report_.neurons = neurons.Take();
    if (experts) report_.experts = experts->Take();
    TakeTexts(neurons.texts());
    return {};
  }

  // What follows whom.
  Status Follow(TraceReader reader) {
    neuron::DynamicsBuilder neurons = DynamicsOf(report_.neurons);
    std::optional<neuron::DynamicsBuilder> experts;
    if (report_.experts) experts.emplace(DynamicsOf(*report_.experts));
    report_.series = SeriesOf(report_.header.num_layers);
    const Status status = ForTokens(reader, [&](const TraceToken& token) {
      if (token.begins_sequence) {
        neurons.BeginText();
        if (experts) experts->BeginText();
        if (num_followed_ < ActivitySeries::kMaxTokens) {
          report_.series_begins.push_back(num_followed_);
        }
      }
      AddToSeries(neurons);
      for (size_t l = 0; experts && l < fired_.size(); ++l) {
        experts->Add(l, reader.experts()[l]);
      }
    });
    TC_RETURN_IF_ERROR(status);
    report_.neurons.layers = neurons.layers();
    if (experts) report_.experts->layers = experts->layers();
    return {};
  }

 private:
  template <typename Function>
  Status ForTokens(TraceReader& reader, Function f) {
    TraceToken token;
    while (true) {
      ReportProgress(progress_, "tokens", num_read_++,
                     2 * report_.totals.num_tokens + 1);
      TC_ASSIGN_OR_RETURN(const bool is_token, reader.Next(token, fired_));
      if (!is_token) return {};
      f(token);
    }
  }

  // Of the section that begins, if its text is one of those compared so far, or
  // may become one.
  void KeepName(const TraceReader& reader, const neuron::TextHeat& texts) {
    while (names_.size() > texts.texts().size()) names_.pop_back();
    names_.push_back(reader.section_name().empty()
                         ? fmt::format("text {}", reader.section_idx() + 1)
                         : reader.section_name());
  }

  void AddNamed(const TraceReader& reader) {
    for (NamingFigures& figures : report_.named) {
      const TraceSets& sets = figures.lookahead
                                  ? reader.named(*figures.lookahead)
                                  : reader.candidates();
      for (size_t l = figures.lookahead.value_or(0); l < fired_.size(); ++l) {
        figures.layers[l].Add(sets[l], fired_[l]);
      }
    }
  }

  void TakeTexts(const neuron::TextHeat& heat) {
    const size_t count = heat.texts().size();
    names_.resize(count);
    report_.texts.names = std::move(names_);
    for (size_t i = 0; i < count; ++i) {
      auto& row = report_.texts.jaccard.emplace_back();
      for (size_t j = 0; j < count; ++j) {
        row.push_back(heat.Between(i, j).value());
      }
    }
  }

  void AddToSeries(neuron::DynamicsBuilder& neurons) {
    auto series = report_.series.begin();
    for (size_t l = 0; l < fired_.size(); ++l) {
      const neuron::ActiveCounts active = neurons.Add(l, fired_[l]);
      if (series == report_.series.end() || series->layer_idx != l) continue;
      if (num_followed_ < ActivitySeries::kMaxTokens) {
        series->tokens.push_back(active);
      }
      ++series;
    }
    ++num_followed_;
  }

  TraceReport& report_;
  const ProgressFn& progress_;
  TraceSets fired_;
  uint64_t num_read_ = 0;
  size_t num_followed_ = 0;
  // Of the texts that are compared, then of the one that is read.
  std::vector<std::string> names_;
};

}  // namespace

neuron::Recurrence UnitFigures::TenthOfAll(size_t tenth) const {
  neuron::Recurrence all;
  for (const neuron::LayerDynamics& layer : layers) {
    all.Add(layer.tenths[tenth]);
  }
  return all;
}

neuron::Naming NamingFigures::total() const {
  neuron::Naming all;
  for (const neuron::Naming& layer : layers) {
    if (layer.num_named > 0) all.Add(layer);
  }
  return all;
}

Result<TraceReport> ReadTrace(const std::string& path,
                              const ProgressFn& progress) {
  TC_ASSIGN_OR_RETURN(auto reader, TraceReader::Open(path));
  TC_RETURN_IF_ERROR(CheckSize(reader));
  std::error_code ignored;
  TraceReport report = {.path = path,
                        .num_bytes = std::filesystem::file_size(path, ignored),
                        .header = reader.header(),
                        .totals = reader.totals()};
  FigureReader figures(report, progress);
  TC_RETURN_IF_ERROR(figures.Count(std::move(reader)));
  TC_ASSIGN_OR_RETURN(auto again, TraceReader::Open(path));
  TC_RETURN_IF_ERROR(figures.Follow(std::move(again)));
  return report;
}

}  // namespace thermocline::cli

// Groups by METIS: the graph, the library, and sizes made exact.
#ifdef TC_METIS
#include <dlfcn.h>
#include <metis.h>
#endif

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/math.h"
#include "planner/neuron_groups.h"

namespace thermocline::planner {

#ifdef TC_METIS
namespace {

constexpr char kMetisLibrary[] = "libmetis.so.5";

struct Metis {
  decltype(&METIS_SetDefaultOptions) set_default_options = nullptr;
  decltype(&METIS_PartGraphKway) part_graph = nullptr;
};

Result<Metis> LoadMetis() {
  Metis metis;
  void* library = ::dlopen(kMetisLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) {
    metis.set_default_options =
        reinterpret_cast<decltype(metis.set_default_options)>(
            ::dlsym(library, "METIS_SetDefaultOptions"));
    metis.part_graph = reinterpret_cast<decltype(metis.part_graph)>(
        ::dlsym(library, "METIS_PartGraphKway"));
  }
  if (metis.set_default_options != nullptr && metis.part_graph != nullptr) {
    return metis;
  }
  const char* reason = ::dlerror();
  return Fail(ErrorCode::kUnsupported,
              "{}: cannot be loaded: {}; neurons are grouped by METIS with "
              "Debian's package libmetis5, or greedily without",
              kMetisLibrary, reason == nullptr ? "no reason given" : reason);
}

const Result<Metis>& TheMetis() {
  static const Result<Metis> metis = LoadMetis();
  return metis;
}

struct Edge {
  int64_t weight = 0;
  uint32_t to = 0;

  // The heaviest first, equal ones by number.
  bool operator<(const Edge& other) const {
    return weight != other.weight ? weight > other.weight : to < other.to;
  }
};
using Graph = std::vector<std::vector<Edge>>;  // [N], both ways

// Of each neuron the edges to its best partners.
Graph BestPartners(const FiringRows& rows) {
  const size_t n = rows.num_neurons();
  Graph graph(n);
  const auto offer = [](std::vector<Edge>& edges, const Edge& edge) {
    if (edges.size() == kMaxEdges && !(edge < edges.front())) return;
    edges.push_back(edge);
    std::ranges::push_heap(edges, std::less());
    if (edges.size() <= kMaxEdges) return;
    std::ranges::pop_heap(edges, std::less());  // the lightest
    edges.pop_back();
  };
  for (uint32_t a = 0; a < n; ++a) {
    for (uint32_t b = a + 1; b < n; ++b) {
      const int64_t both = rows.CountBoth(a, b);
      if (both == 0) continue;
      offer(graph[a], {both, b});
      offer(graph[b], {both, a});
    }
  }
  return graph;
}

Graph Symmetric(Graph graph) {
  const Graph chosen = graph;
  for (uint32_t a = 0; a < chosen.size(); ++a) {
    for (const Edge& edge : chosen[a]) {
      graph[edge.to].push_back({edge.weight, a});
    }
  }
  for (std::vector<Edge>& edges : graph) {
    std::ranges::sort(edges, std::less());
    const auto gone = std::ranges::unique(edges, {}, &Edge::to);
    edges.erase(gone.begin(), gone.end());
  }
  return graph;
}

// [N] the part of each neuron, of `num_parts`.
Result<std::vector<idx_t>> CutGraph(const Metis& metis, const Graph& graph,
                                    size_t num_parts) {
  std::vector<idx_t> parts(graph.size(), 0);
  if (num_parts < 2) return parts;
  std::vector<idx_t> starts = {0};
  std::vector<idx_t> to;
  std::vector<idx_t> weights;
  for (const std::vector<Edge>& edges : graph) {
    for (const Edge& edge : edges) {
      to.push_back(static_cast<idx_t>(edge.to));
      weights.push_back(static_cast<idx_t>(edge.weight));
    }
    starts.push_back(static_cast<idx_t>(to.size()));
  }
  std::vector<idx_t> options(METIS_NOPTIONS);
  metis.set_default_options(options.data());
  options[METIS_OPTION_SEED] = 1;
  options[METIS_OPTION_UFACTOR] = 1;
  auto num_vertices = static_cast<idx_t>(graph.size());
  auto wanted = static_cast<idx_t>(num_parts);
  idx_t num_constraints = 1;
  idx_t cut = 0;
  const int status =
      metis.part_graph(&num_vertices, &num_constraints, starts.data(),
                       to.data(), nullptr, nullptr, weights.data(), &wanted,
                       nullptr, nullptr, options.data(), &cut, parts.data());
  if (status != METIS_OK) {
    return Fail(ErrorCode::kResourceExhausted,
                "METIS could not cut a graph of {} neurons in {} groups (its "
                "status is {})",
                graph.size(), num_parts, status);
  }
  return parts;
}

// Parts of exactly `group_size`, but for the one that has the rest.
class ExactSizes {
 public:
  ExactSizes(const Graph& graph, std::span<const idx_t> parts,
             std::vector<size_t> sizes)
      : graph_(graph), groups_(sizes.size()), sizes_(std::move(sizes)) {
    for (uint32_t i = 0; i < parts.size(); ++i) {
      part_.push_back(static_cast<uint32_t>(parts[i]));
      groups_[part_.back()].push_back(i);
    }
  }

  std::vector<std::vector<uint32_t>> Make() {
    std::vector<uint32_t> homeless;
    for (size_t g = 0; g < groups_.size(); ++g) {
      while (groups_[g].size() > sizes_[g]) homeless.push_back(TakeLoosest(g));
    }
    for (const uint32_t neuron : homeless) Settle(neuron);
    return std::move(groups_);
  }

 private:
  int64_t Ties(uint32_t neuron, size_t group) const {
    int64_t sum = 0;
    for (const Edge& edge : graph_[neuron]) {
      if (part_[edge.to] == group) sum += edge.weight;
    }
    return sum;
  }

  uint32_t TakeLoosest(size_t g) {
    std::vector<uint32_t>& group = groups_[g];
    const auto loosest = std::ranges::min_element(
        group, {}, [&](uint32_t i) { return std::pair(Ties(i, g), i); });
    const uint32_t neuron = *loosest;
    group.erase(loosest);
    part_[neuron] = static_cast<uint32_t>(groups_.size());  // nobody's
    return neuron;
  }

  void Settle(uint32_t neuron) {
    size_t best = groups_.size();
    int64_t most = -1;
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].size() >= sizes_[g]) continue;
      const int64_t ties = Ties(neuron, g);
      if (ties > most) {
        most = ties;
        best = g;
      }
    }
    TC_CHECK(best < groups_.size());
    groups_[best].push_back(neuron);
    part_[neuron] = static_cast<uint32_t>(best);
  }

  const Graph& graph_;
  std::vector<uint32_t> part_;  // [N]
  std::vector<std::vector<uint32_t>> groups_;
  std::vector<size_t> sizes_;
};

// The short group, if there is one, has to stand last.
std::vector<uint32_t> ByHeat(std::vector<std::vector<uint32_t>> groups,
                             std::span<const uint32_t> by_heat,
                             const FiringRows& rows) {
  std::vector<size_t> rank(by_heat.size());
  for (size_t i = 0; i < by_heat.size(); ++i) rank[by_heat[i]] = i;
  std::vector<std::pair<int64_t, size_t>> heats;  // of full groups, negative
  const size_t full = groups.front().size();
  for (size_t g = 0; g < groups.size(); ++g) {
    std::ranges::sort(groups[g], {}, [&](uint32_t i) { return rank[i]; });
    int64_t heat = 0;
    for (const uint32_t i : groups[g]) heat += rows.Count(i);
    heats.emplace_back(groups[g].size() == full ? -heat : 1, g);
  }
  std::ranges::sort(heats);
  std::vector<uint32_t> order;
  for (const auto& [heat, g] : heats) {
    order.insert(order.end(), groups[g].begin(), groups[g].end());
  }
  return order;
}

}  // namespace

bool HasMetis() { return TheMetis().has_value(); }

Result<std::vector<std::vector<uint32_t>>> GroupByMetis(
    const FiringRows& rows, std::span<const uint32_t> by_heat,
    std::span<const size_t> group_sizes) {
  TC_CHECK(by_heat.size() == rows.num_neurons());
  TC_ASSIGN_OR_RETURN(const Metis metis, TheMetis());
  const Graph graph = Symmetric(BestPartners(rows));
  std::vector<std::vector<uint32_t>> orders;
  for (const size_t group_size : group_sizes) {
    TC_CHECK(group_size > 0);
    const size_t num_groups = CeilDiv(graph.size(), group_size);
    if (num_groups == 0) {
      orders.emplace_back();
      continue;
    }
    TC_ASSIGN_OR_RETURN(const auto parts, CutGraph(metis, graph, num_groups));
    std::vector<size_t> sizes(num_groups, group_size);
    sizes.back() = graph.size() - (num_groups - 1) * group_size;
    orders.push_back(ByHeat(ExactSizes(graph, parts, std::move(sizes)).Make(),
                            by_heat, rows));
  }
  return orders;
}

#else

bool HasMetis() { return false; }

Result<std::vector<std::vector<uint32_t>>> GroupByMetis(
    const FiringRows& /*rows*/, std::span<const uint32_t> /*by_heat*/,
    std::span<const size_t> /*group_sizes*/) {
  return Fail(ErrorCode::kUnsupported,
              "this build groups neurons without METIS (Debian's "
              "libmetis-dev), greedily alone");
}

#endif

}  // namespace thermocline::planner

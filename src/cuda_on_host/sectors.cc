#include "cuda_on_host/checker.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cuda_on_host/run_state.h"

namespace thermocline::cuda_on_host {
namespace {

constexpr uintptr_t kSectorBytes = 32;

// One access of a warp, as its lanes come by.
struct WarpAccess {
  unsigned lanes = 0;
  std::vector<uintptr_t> sectors;
};

struct PlaceInWarp {
  const void* pc;
  unsigned warp;
  const void* allocation;
  bool operator==(const PlaceInWarp&) const = default;
};
struct HashPlace {
  size_t operator()(const PlaceInWarp& place) const {
    const auto pc = reinterpret_cast<uintptr_t>(place.pc);
    const auto base = reinterpret_cast<uintptr_t>(place.allocation);
    return (pc * 64 + place.warp) ^ base;
  }
};

std::unordered_map<PlaceInWarp, std::vector<WarpAccess>, HashPlace> open;
std::map<std::pair<std::string, const void*>, Traffic> traffic;

Traffic& TrafficOfLaunch(const void* allocation) {
  return traffic[{run_state.call->name, allocation}];
}

}  // namespace

void CountSectors(const void* pc, const void* allocation, const void* address,
                  size_t bytes) {
  const Lane& lane = self->lane;
  auto& accesses = open[{pc, lane.warp, allocation}];
  size_t i = 0;
  while (i < accesses.size() && (accesses[i].lanes >> lane.lane & 1) != 0) ++i;
  if (i == accesses.size()) accesses.emplace_back();
  WarpAccess& access = accesses[i];
  access.lanes |= 1u << lane.lane;
  const auto begin = reinterpret_cast<uintptr_t>(address);
  for (uintptr_t sector = begin / kSectorBytes;
       sector <= (begin + bytes - 1) / kSectorBytes; ++sector) {
    if (std::find(access.sectors.begin(), access.sectors.end(), sector) ==
        access.sectors.end()) {
      access.sectors.push_back(sector);
    }
  }
  TrafficOfLaunch(allocation).bytes += bytes;
}

void AddUpSectors() {
  for (const auto& [place, accesses] : open) {
    Traffic& total = TrafficOfLaunch(place.allocation);
    for (const WarpAccess& access : accesses) {
      ++total.requests;
      total.sectors += access.sectors.size();
    }
  }
  open.clear();
}

Traffic TrafficOf(std::string_view kernel, const void* allocation) {
  const auto found = traffic.find({std::string(kernel), allocation});
  return found == traffic.end() ? Traffic{} : found->second;
}

void ClearTraffic() { traffic.clear(); }

}  // namespace thermocline::cuda_on_host

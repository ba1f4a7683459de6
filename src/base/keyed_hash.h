// A hash that a file cannot be crafted against: SipHash-1-3 (Aumasson and
// Bernstein 2012) with a key that each process draws for itself. For maps whose
// keys come from outside; std::hash has a fixed seed, so a few megabytes of
// chosen names would make such a map quadratic. The order of a map's elements
// differs from run to run: nothing may depend on it.
#ifndef THERMOCLINE_BASE_KEYED_HASH_H_
#define THERMOCLINE_BASE_KEYED_HASH_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace thermocline {

struct HashKey {
  uint64_t k0, k1;
};

// One compression round per 8 bytes, three to finish.
uint64_t SipHash13(const HashKey& key, std::string_view bytes);

// For std::unordered_map<std::string, T, KeyedHash, std::equal_to<>>, which
// then finds string_views without making strings, and for integer keys.
struct KeyedHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const;
  size_t operator()(uint64_t number) const;
};

}  // namespace thermocline

#endif  // THERMOCLINE_BASE_KEYED_HASH_H_

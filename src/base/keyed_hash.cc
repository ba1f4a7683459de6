#include "base/keyed_hash.h"

#include <bit>
#include <chrono>
#include <cstring>
#include <exception>
#include <random>

namespace thermocline {
namespace {

struct SipState {
  uint64_t v0, v1, v2, v3;

  void Round() {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }

  void Absorb(uint64_t word) {
    v3 ^= word;
    Round();
    v0 ^= word;
  }
};

uint64_t LittleEndian(const char* bytes, size_t count) {
  uint64_t word = 0;
  for (size_t i = 0; i < count; ++i) {
    word |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return word;
}

HashKey DrawKey() {
  const auto mix = [](uint64_t a, uint64_t b) { return a << 32 ^ b; };
  try {
    std::random_device device;
    const uint64_t k0 = mix(device(), device());
    return {k0, mix(device(), device())};
  } catch (const std::exception&) {
    // No random device: the clock is hard enough to guess from a file.
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return {static_cast<uint64_t>(now.count()), 0x9e3779b97f4a7c15u};
  }
}

const HashKey& ProcessKey() {
  static const HashKey key = DrawKey();
  return key;
}

}  // namespace

uint64_t SipHash13(const HashKey& key, std::string_view bytes) {
  SipState state = {key.k0 ^ 0x736f6d6570736575u, key.k1 ^ 0x646f72616e646f6du,
                    key.k0 ^ 0x6c7967656e657261u, key.k1 ^ 0x7465646279746573u};
  const size_t num_whole = bytes.size() / 8 * 8;
  for (size_t i = 0; i < num_whole; i += 8) {
    if constexpr (std::endian::native == std::endian::little) {
      uint64_t word;
      std::memcpy(&word, bytes.data() + i, sizeof(word));
      state.Absorb(word);
    } else {
      state.Absorb(LittleEndian(bytes.data() + i, 8));
    }
  }
  state.Absorb(uint64_t{bytes.size() & 0xff} << 56 |
               LittleEndian(bytes.data() + num_whole, bytes.size() % 8));
  state.v2 ^= 0xff;
  state.Round();
  state.Round();
  state.Round();
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

size_t KeyedHash::operator()(std::string_view text) const {
  return static_cast<size_t>(SipHash13(ProcessKey(), text));
}

size_t KeyedHash::operator()(uint64_t number) const {
  char bytes[sizeof(number)];
  std::memcpy(bytes, &number, sizeof(number));
  return static_cast<size_t>(
      SipHash13(ProcessKey(), std::string_view(bytes, sizeof(bytes))));
}

}  // namespace thermocline

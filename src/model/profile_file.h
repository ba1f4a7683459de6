// Profiles as files: GGUF with the counts as tensors and the rest as keys.
// Untrusted input. Byte by byte: docs/formats/profile.md.
#ifndef THERMOCLINE_MODEL_PROFILE_FILE_H_
#define THERMOCLINE_MODEL_PROFILE_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "gguf/gguf.h"
#include "model/config.h"
#include "model/model.h"
#include "neuron/profile.h"

namespace thermocline::model {

// What tells one model from another, but not its quantised or prepared forms
// from itself.
struct ModelFingerprint {
  std::string architecture;
  std::string name;  // for people; says nothing
  size_t num_layers = 0;
  size_t width = 0;
  size_t ffn_width = 0;  // of the widest layer
  size_t num_experts = 0;
  // Of the bytes of all norms, which stay F32 whatever becomes of the matrices.
  // Models whose norms were never trained are told apart by nothing but sizes.
  // And of the neurons' numbers in their source, where they have others: what
  // names neurons is of no use to models that number them otherwise.
  uint64_t hash = 0;

  bool operator==(const ModelFingerprint&) const = default;
};

// Cost: reads the norms, and the numbers.
ModelFingerprint FingerprintOf(const Config& config, const Weights& weights);
inline ModelFingerprint FingerprintOf(const Model& model) {
  return FingerprintOf(model.config(), model.weights());
}

// kInvalidArgument, with what differs, if `model` is not what `fingerprint` was
// taken of; names may differ. `what` is the object for the message:
// "a.profile: was made".
Status CheckSameModel(const ModelFingerprint& fingerprint, const Model& model,
                      const std::string& what);

// Writes the hash to `kv` if that is the key of ProfileKeys that holds it.
void SetModelHash(uint64_t hash, gguf::KeyValue& kv);

// That in a file of any kind; nullopt: it has none. kCorrupt as ReadProfile.
Result<std::optional<ModelFingerprint>> ReadModelFingerprint(
    const gguf::File& file);

struct ProfileFile {
  ModelFingerprint model;
  std::string corpus;   // the text's name, for people
  int64_t context = 0;  // tokens that the model saw together
  neuron::Profile profile;

  bool operator==(const ProfileFile&) const = default;
};

// What of a profile is kept in keys, "thermocline.profile.*": for its own file
// and for prepared models. Requires layers [L] that saw as many tokens
// (CHECKed).
std::vector<gguf::KeyValue> ProfileKeys(const ProfileFile& file);

// Writes a profile. The same requirement. kIo.
Status WriteProfile(const ProfileFile& file, const std::string& path);

// Reads a profile, or the one in a prepared model. kNotFound: there is none in
// the file; kCorrupt: the content contradicts itself; kUnsupported: a version
// to come. Messages name the file and the key or tensor.
Result<ProfileFile> ReadProfile(const gguf::File& file);
Result<ProfileFile> ReadProfile(const std::string& path);

}  // namespace thermocline::model

#endif  // THERMOCLINE_MODEL_PROFILE_FILE_H_

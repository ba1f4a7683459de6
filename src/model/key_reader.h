// Range-checked access to the keys of one architecture ("llama.block_count").
#ifndef THERMOCLINE_MODEL_KEY_READER_H_
#define THERMOCLINE_MODEL_KEY_READER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "gguf/gguf.h"

namespace thermocline::model {

// All messages name the file and the whole key. Keeps a reference to the file.
class KeyReader {
 public:
  KeyReader(const gguf::File& file, std::string architecture)
      : file_(file), architecture_(std::move(architecture)) {}

  const gguf::File& file() const { return file_; }

  // "block_count" -> "llama.block_count".
  std::string FullKey(std::string_view suffix) const;

  // kCorrupt: absent, of another type, outside [low, high].
  Result<int64_t> RequireInt(std::string_view suffix, int64_t low,
                             int64_t high) const;
  // `fallback` when absent, itself not range-checked.
  Result<int64_t> IntOr(std::string_view suffix, int64_t low, int64_t high,
                        int64_t fallback) const;

  // The same for extents; high at most 2^63 - 1.
  Result<size_t> RequireExtent(std::string_view suffix, size_t low,
                               size_t high) const;
  Result<size_t> ExtentOr(std::string_view suffix, size_t low, size_t high,
                          size_t fallback) const;

  // An extent per layer, given once or as an array of num_layers elements;
  // `fallback` when absent, kCorrupt when that is nullopt, and for arrays of
  // another length.
  Result<std::vector<size_t>> PerLayer(std::string_view suffix,
                                       size_t num_layers, size_t low,
                                       size_t high,
                                       std::optional<size_t> fallback) const;

  // Not finite or outside [low, high]: kCorrupt.
  Result<double> RequireFloat(std::string_view suffix, double low,
                              double high) const;
  Result<double> FloatOr(std::string_view suffix, double low, double high,
                         double fallback) const;

  // kCorrupt: "file: key K is V; REASON".
  template <typename V>
  tl::unexpected<Error> Wrong(std::string_view suffix, const V& value,
                              std::string_view reason) const {
    return Fail(ErrorCode::kCorrupt, "{}: key \"{}\" is {}; {}", file_.path(),
                FullKey(suffix), value, reason);
  }

 private:
  Result<int64_t> CheckRange(std::string_view suffix, int64_t value,
                             int64_t low, int64_t high) const;
  tl::unexpected<Error> Missing(std::string_view suffix) const;

  const gguf::File& file_;
  std::string architecture_;
};

}  // namespace thermocline::model

#endif  // THERMOCLINE_MODEL_KEY_READER_H_

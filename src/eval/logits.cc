#include "eval/logits.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "base/units.h"

namespace thermocline::eval {

static_assert(std::endian::native == std::endian::little,
              "logits are written as they lie in memory");

Status WriteLogits(engine::Session& session,
                   std::span<const text::TokenId> tokens, bool one_by_one,
                   const BytesFn& write) {
  if (tokens.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "logits of no tokens: give ids");
  }
  const int64_t room = session.context() - session.position();
  if (static_cast<int64_t>(tokens.size()) > room) {
    return Fail(ErrorCode::kResourceExhausted,
                "no room for {} in the context, but for {}",
                Plural(tokens.size(), "token"), room);
  }
  const size_t vocab_size =
      static_cast<size_t>(session.model().config().vocab_size);
  const size_t rows_in_buffer =
      std::max<size_t>(kLogitsBufferBytes / (vocab_size * sizeof(float)), 1);
  const size_t step = one_by_one ? 1 : std::min(tokens.size(), rows_in_buffer);

  std::vector<float> logits(step * vocab_size);
  for (size_t begin = 0; begin < tokens.size(); begin += step) {
    const auto batch =
        tokens.subspan(begin, std::min(step, tokens.size() - begin));
    const std::span<float> rows =
        std::span(logits).first(batch.size() * vocab_size);
    TC_RETURN_IF_ERROR(session.Decode(
        batch, one_by_one ? engine::Phase::kGenerate : engine::Phase::kPrompt,
        engine::LogitsOf::kAll, rows));
    TC_RETURN_IF_ERROR(write(std::as_bytes(rows)));
  }
  return {};
}

}  // namespace thermocline::eval

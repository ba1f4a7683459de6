// What the tests of this room share.
#ifndef THERMOCLINE_EVAL_TESTING_H_
#define THERMOCLINE_EVAL_TESTING_H_

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "engine/session.h"

namespace thermocline::eval {

// A model of testdata/; null, with a failure, if it cannot be opened.
inline std::shared_ptr<const model::Model> OpenModel(const std::string& name) {
  auto model = model::Model::Open(std::string(TC_TEST_DATA) + "/" + name);
  if (model.has_value()) return *std::move(model);
  ADD_FAILURE() << model.error().message;
  return nullptr;
}

// Null, with a failure, if there is none.
inline std::unique_ptr<engine::Session> OpenSession(
    std::shared_ptr<const model::Model> model, int64_t context,
    int num_threads = 1, const std::atomic<bool>* cancel = nullptr) {
  auto session =
      engine::Session::Create(std::move(model), {.context = context,
                                                 .num_threads = num_threads,
                                                 .k_type = DType::kF32,
                                                 .v_type = DType::kF32,
                                                 .cancel = cancel});
  if (session.has_value()) return *std::move(session);
  ADD_FAILURE() << session.error().message;
  return nullptr;
}

inline std::vector<text::TokenId> RandomTokens(size_t count,
                                               size_t vocab_size) {
  Random random(7);
  std::vector<text::TokenId> tokens(count);
  for (text::TokenId& token : tokens) {
    token = static_cast<text::TokenId>(random.Below(vocab_size));
  }
  return tokens;
}

// The error's message; "" of success.
template <typename StatusOrResult>
std::string MessageOf(const StatusOrResult& result) {
  return result.has_value() ? std::string() : result.error().message;
}

}  // namespace thermocline::eval

#endif  // THERMOCLINE_EVAL_TESTING_H_

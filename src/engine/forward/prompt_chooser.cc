#include "engine/forward/prompt_chooser.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/log.h"
#include "base/math.h"
#include "engine/kv/kv_pool.h"
#include "kernels/kv_group.h"

namespace thermocline::engine {
namespace {

constexpr int64_t kCheckTokens = 16;

// sum (a - b)^2 / sum b^2
double NmseOf(std::span<const float> a, std::span<const float> b) {
  double error = 0.0;
  double signal = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = double{a[i]} - double{b[i]};
    error += difference * difference;
    signal += double{b[i]} * double{b[i]};
  }
  if (error == 0.0) return 0.0;
  return signal > 0.0 ? error / signal
                      : std::numeric_limits<double>::infinity();
}

// Spread over the vocabulary, so that rows differ.
std::vector<text::TokenId> CheckTokens(size_t count, size_t vocab_size) {
  constexpr uint64_t kStride = 7919;  // a prime
  std::vector<text::TokenId> tokens(count);
  for (size_t i = 0; i < count; ++i) {
    tokens[i] = static_cast<text::TokenId>((i + 1) * kStride % vocab_size);
  }
  return tokens;
}

// Keys and values as exact as can be.
Result<KvLayout> CheckLayout(const model::Config& config) {
  return PlanKvLayout(config, DType::kF32, DType::kF32);
}

}  // namespace

Result<uint64_t> PromptCheckBytes(const model::Config& config) {
  TC_ASSIGN_OR_RETURN(const KvLayout layout, CheckLayout(config));
  TC_ASSIGN_OR_RETURN(const uint64_t kv_bytes,
                      KvBytes(layout, KvPagesFor(kCheckTokens)));
  const uint64_t logit_bytes =
      2 * uint64_t{kCheckTokens} * config.vocab_size * sizeof(float);
  return CheckedAdd(kv_bytes, logit_bytes)
      .value_or(std::numeric_limits<uint64_t>::max());
}

std::string ChosenPrompts::Describe() const {
  if (!nmse_) return prompts_->Describe();
  return fmt::format("{}, NMSE {:.1e} against the host", prompts_->Describe(),
                     *nmse_);
}

Result<std::unique_ptr<ChosenPrompts>> PromptChooser::Choose(
    const RunPass& run) {
  Status status = CheckPrompts();
  if (!status.has_value()) {
    if (!options().host_takes_over) return tl::unexpected(status.error());
    LogWarning("{}: the host computes prompts", status.error().message);
    return std::unique_ptr<ChosenPrompts>();
  }
  for (size_t i = 0; i < options().devices.size(); ++i) {
    auto chosen = Try(options().devices[i], run);
    if (chosen.has_value()) {
      LogInfo("prompts on {}", (*chosen)->Describe());
      return chosen;
    }
    if (chosen.error().code == ErrorCode::kCancelled) return chosen;
    const bool is_last = i + 1 == options().devices.size();
    if (is_last && !options().host_takes_over) return chosen;
    const std::string message = fmt::format(
        "{}: {}", options().devices[i]->name(), chosen.error().message);
    LogWarning("prompts on {}; {} is next", message,
               is_last ? "the host" : options().devices[i + 1]->name());
  }
  return std::unique_ptr<ChosenPrompts>();
}

Status PromptChooser::CheckPrompts() const {
  const std::string& path = model().file().path();
  if (parts_.is_observed) {
    return Fail(ErrorCode::kUnsupported,
                "{}: static graphs do not show which neurons fire, which is "
                "looked at here",
                path);
  }
  for (const LayerPlan& layer : *parts_.layers) {
    const FfnMode mode = layer.of(Phase::kPrompt);
    if (mode == FfnMode::kFast || mode == FfnMode::kThreshold) {
      return Fail(ErrorCode::kUnsupported,
                  "{}: static graphs compute all neurons of a prompt, and this "
                  "one's are chosen ({})",
                  path, NameOf(mode));
    }
  }
  // Experts too: of mixtures there are no graphs (npu::CheckCanBuild).
  if (parts_.stream == nullptr || options().graphs.weights_are_inputs) {
    return {};
  }
  return Fail(ErrorCode::kUnsupported,
              "{}: {} of it stay in the file: static graphs take them as "
              "inputs alone, not as constants",
              path, NameOf(parts_.stream->unit()));
}

Result<std::unique_ptr<ChosenPrompts>> PromptChooser::Try(
    const std::shared_ptr<npu::StaticDevice>& device, const RunPass& run) {
  TC_ASSIGN_OR_RETURN(auto prompts, NpuPrompt::Create(parts_.prompts, device));
  const PromptCheck check = options().check;
  if (check == PromptCheck::kOff) {
    return std::make_unique<ChosenPrompts>(std::move(prompts), std::nullopt);
  }
  TC_ASSIGN_OR_RETURN(const double nmse, Compare(prompts.get(), run));
  if (!(nmse <= kMostPromptNmse)) {
    const std::string message = fmt::format(
        "{}: its logits of {} tokens have an NMSE of {:.1e} against the "
        "host's, more than {:.0e}",
        device->Describe(), kCheckTokens, nmse, kMostPromptNmse);
    if (check == PromptCheck::kFail) {
      return Fail(ErrorCode::kUnsupported, "{}", message);
    }
    LogWarning("{}", message);
  }
  return std::make_unique<ChosenPrompts>(std::move(prompts), nmse);
}

Result<double> PromptChooser::Compare(NpuPrompt* prompts, const RunPass& run) {
  if (host_logits_.empty()) {
    TC_ASSIGN_OR_RETURN(host_logits_, ComputeLogits(nullptr, run));
  }
  // A failure is this device's, and nobody is to make it good.
  prompts->SetUse(NpuPrompt::Use::kCheck);
  auto logits = ComputeLogits(prompts, run);
  prompts->SetUse(NpuPrompt::Use::kAsItPays);
  prompts->ResetTimes();
  TC_RETURN_IF_ERROR(logits);
  return NmseOf(*logits, host_logits_);
}

Result<std::vector<float>> PromptChooser::ComputeLogits(NpuPrompt* prompts,
                                                        const RunPass& run) {
  const int64_t count =
      std::min({kCheckTokens, parts_.max_rows, options().graphs.context});
  const std::vector<text::TokenId> tokens =
      CheckTokens(static_cast<size_t>(count), model().config().vocab_size);
  TC_ASSIGN_OR_RETURN(const KvLayout layout, CheckLayout(model().config()));
  TC_ASSIGN_OR_RETURN(const auto pool,
                      KvPool::Create(layout, KvPagesFor(count)));
  KvSequence sequence(pool.get(), count);
  std::vector<float> logits(tokens.size() * model().config().vocab_size);
  const BatchRun of_check = {.sequence = &sequence,
                             .tokens = tokens,
                             .phase = Phase::kPrompt,
                             .logits = LogitsOf::kAll};
  TC_RETURN_IF_ERROR(run(prompts, {{&of_check, 1}}, logits));
  return logits;
}

}  // namespace thermocline::engine

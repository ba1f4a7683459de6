// A model's own chat template, run.
#ifndef THERMOCLINE_TEXT_MODEL_TEMPLATE_H_
#define THERMOCLINE_TEXT_MODEL_TEMPLATE_H_

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/chat_format.h"
#include "text/jinja/template.h"

namespace thermocline::text {

struct ModelTemplateOptions {
  std::string name = "the format of the model's own template";
  // An object whose members are variables of the template, as enable_thinking
  // and documents. Those whose names end in _token are texts of special tokens,
  // in the place of the vocabulary's.
  jinja::Json kwargs = jinja::Json::object();
  // Descriptions of functions, as OpenAI's API has them. Without them the
  // variable is undefined: some templates cannot stand any other nothing.
  std::optional<jinja::Json> tools;
  // What the template's clock shows, always the same: with one that goes on, a
  // conversation over midnight would be computed anew.
  std::tm now = {};
};

// Arguments of calls are handed over as objects, and as texts where the
// template fails with objects; where it fails with both, messages with calls
// and no content get an empty one. An error is that of the first rendering.
// Names of known roles (user, tool, ...) count as written by the template:
// <|user|> may be put together from one.
class ModelTemplate final : public ChatFormat {
 public:
  // `tokenizer` may be null, for a template without a model; else it lives as
  // long. kInvalidArgument: kwargs that are no object; the errors of
  // jinja::Template::Parse and of the tokenizer. Renders a short conversation,
  // to see what stands behind an answer; a template that refuses it, or changes
  // its texts, has no ends of answers but the vocabulary's.
  static Result<std::unique_ptr<const ModelTemplate>> Create(
      std::string_view source, const Tokenizer* tokenizer,
      ModelTemplateOptions options);

 private:
  ModelTemplate(jinja::Template program, ModelTemplateOptions options)
      : program_(std::move(program)), options_(std::move(options)) {}

  Result<std::vector<TextPart>> RenderAll(
      const RenderRequest& request) const override;
  void SetVariables(const Tokenizer* tokenizer);
  Result<Traits> Probe(std::string_view source,
                       const Tokenizer* tokenizer) const;
  Result<std::vector<TextPart>> RenderWith(const RenderRequest& request,
                                           CallArguments arguments) const;

  jinja::Template program_;
  ModelTemplateOptions options_;
  jinja::Variables variables_;  // those of every rendering
};

}  // namespace thermocline::text

#endif  // THERMOCLINE_TEXT_MODEL_TEMPLATE_H_

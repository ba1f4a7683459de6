#include "text/model_template.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace thermocline::text {
namespace {

using jinja::Json;

// Words that no template looks for.
constexpr std::string_view kQuestion = "Zebra";
constexpr std::string_view kAnswer = "Walnut";
constexpr std::string_view kNextQuestion = "Quokka";

Json Message(std::string_view role, std::string_view content) {
  return {{"role", role}, {"content", content}};
}

std::string Lowered(std::string_view text) {
  std::string lowered(text);
  for (char& c : lowered) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lowered;
}

// Variables that nobody else sets, or that no template is to see.
constexpr std::string_view kOurs[] = {"messages", "add_generation_prompt",
                                      "continue_final_message"};

// Roles that models were trained with: those that templates ask for, and of
// other models those that stand in marks. Of another, which may come from who
// writes the messages, no mark is made: "endoftext" would end a text.
constexpr std::string_view kRoles[] = {
    "system",      "developer",     "user",     "assistant",    "model",
    "chatbot",     "tool",          "function", "tool_results", "ipython",
    "observation", "tool_response", "root",     "environment",  "documents"};

// The roles of the messages that are known ones.
std::set<std::string> RolesOf(const ChatMessages& messages) {
  std::set<std::string> roles;
  for (const Json& message : messages) {
    const auto& role = message["role"].get_ref<const std::string&>();
    if (std::ranges::find(kRoles, role) != std::end(kRoles)) {
      roles.insert(role);
    }
  }
  return roles;
}

// Makes markup of parts that are a role, in any case: templates put marks
// together from them.
std::vector<TextPart> WithRolesAsMarkup(std::span<const TextPart> parts,
                                        const std::set<std::string>& roles) {
  std::vector<TextPart> made;
  for (const TextPart& part : parts) {
    const bool is_role = !part.is_markup && roles.contains(Lowered(part.text));
    AppendPart(part.text, part.is_markup || is_role, &made);
  }
  return made;
}

// What stands between the answer and the question behind it; empty: one of
// them is not there as it was written.
std::string TextBehindAnswer(std::string_view rendering) {
  const size_t answer = rendering.find(kAnswer);
  if (answer == std::string_view::npos) return "";
  const size_t begin = answer + kAnswer.size();
  const size_t end = rendering.find(kNextQuestion, begin);
  if (end == std::string_view::npos) return "";
  return std::string(rendering.substr(begin, end - begin));
}

}  // namespace

Result<std::unique_ptr<const ModelTemplate>> ModelTemplate::Create(
    std::string_view source, const Tokenizer* tokenizer,
    ModelTemplateOptions options) {
  if (!options.kwargs.is_object()) {
    return Fail(ErrorCode::kInvalidArgument,
                "the variables of a template are no JSON object");
  }
  for (const std::string_view name : kOurs) {
    if (!options.kwargs.contains(name)) continue;
    return Fail(ErrorCode::kInvalidArgument,
                "the variable {} of a template cannot be set: each rendering "
                "has its own",
                name);
  }
  TC_ASSIGN_OR_RETURN(jinja::Template program, jinja::Template::Parse(source));
  std::unique_ptr<ModelTemplate> made(
      new ModelTemplate(std::move(program), std::move(options)));
  made->SetVariables(tokenizer);
  TC_ASSIGN_OR_RETURN(Traits traits, made->Probe(source, tokenizer));
  made->SetTraits(std::move(traits));
  return std::unique_ptr<const ModelTemplate>(std::move(made));
}

void ModelTemplate::SetVariables(const Tokenizer* tokenizer) {
  Json& markup = variables_.markup;
  // Templates add to these two without a look whether they are there.
  markup["bos_token"] = "";
  markup["eos_token"] = "";
  if (tokenizer != nullptr) {
    const Vocab& vocab = tokenizer->vocab();
    for (const auto& [name, id] :
         {std::pair("bos_token", vocab.bos), std::pair("eos_token", vocab.eos),
          std::pair("unk_token", vocab.unk),
          std::pair("pad_token", vocab.pad)}) {
      if (id) markup[name] = tokenizer->Piece(*id, /*show_special=*/true);
    }
  }
  for (const auto& [name, value] : options_.kwargs.items()) {
    const bool is_token = std::string_view(name).ends_with("_token");
    (is_token ? markup : variables_.content)[name] = value;
  }
  if (options_.tools) variables_.content["tools"] = *options_.tools;
}

Result<ChatFormat::Traits> ModelTemplate::Probe(
    std::string_view source, const Tokenizer* tokenizer) const {
  Traits traits;
  traits.name = options_.name;
  traits.reasoning = FindReasoningMarks(source, tokenizer);
  const ChatMessages messages = {Message("user", kQuestion),
                                 Message("assistant", kAnswer),
                                 Message("user", kNextQuestion)};
  const auto parts = Render({.messages = &messages});
  // The source too: what only calls and system prompts bring up is in it.
  std::vector<TextPart> markup = {{std::string(source), /*is_markup=*/true}};
  if (parts.has_value()) {
    TC_ASSIGN_OR_RETURN(
        traits.end, FindAnswerEnd(TextBehindAnswer(Join(*parts)), tokenizer));
    std::ranges::copy_if(*parts, std::back_inserter(markup),
                         &TextPart::is_markup);
  }
  if (tokenizer == nullptr) return traits;
  TC_ASSIGN_OR_RETURN(traits.reserved, FindReservedTokens(markup, *tokenizer));
  // Where one token ends thoughts and answers, an answer goes on behind it.
  std::erase_if(traits.end.tokens, [&](TokenId id) {
    return tokenizer->Piece(id, /*show_special=*/true) == traits.reasoning.end;
  });
  return traits;
}

Result<std::vector<TextPart>> ModelTemplate::RenderWith(
    const RenderRequest& request, CallArguments arguments) const {
  jinja::Variables variables = variables_;
  variables.content["messages"] =
      MessagesForTemplate(*request.messages, arguments);
  variables.markup["add_generation_prompt"] = *request.add_generation_prompt;
  TC_ASSIGN_OR_RETURN(
      const std::vector<TextPart> parts,
      program_.Render(variables, {.limits = {}, .now = options_.now}));
  return WithRolesAsMarkup(parts, RolesOf(*request.messages));
}

Result<std::vector<TextPart>> ModelTemplate::RenderAll(
    const RenderRequest& request) const {
  auto parts = RenderWith(request, CallArguments::kObjects);
  if (parts.has_value() || !HasCalls(*request.messages)) return parts;
  auto again = RenderWith(request, CallArguments::kTexts);
  if (again.has_value()) return again;
  ChatMessages filled = *request.messages;
  if (!FillContentOfCalls(&filled)) return parts;
  RenderRequest with_content = request;
  with_content.messages = &filled;
  for (const auto arguments :
       {CallArguments::kObjects, CallArguments::kTexts}) {
    again = RenderWith(with_content, arguments);
    if (again.has_value()) return again;
  }
  return parts;
}

}  // namespace thermocline::text

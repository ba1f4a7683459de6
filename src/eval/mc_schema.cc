#include "eval/mc_schema.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "base/quote.h"

namespace thermocline::eval {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxFieldsShown = 12;
constexpr double kTwoTo63 = 0x1p63;
constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
constexpr std::string_view kGoalSchema = "goal/sol1/sol2/label";

tl::unexpected<Error> Wrong(std::string_view field, std::string_view what) {
  return Fail(ErrorCode::kCorrupt, "\"{}\" {}", field, what);
}

// Text that is more than white space.
Result<std::string> AsText(std::string_view name, const Json& value) {
  const auto* text = value.get_ptr<const Json::string_t*>();
  if (text == nullptr) {
    return Wrong(name, fmt::format("is {}, not text", value.type_name()));
  }
  if (text->find_first_not_of(kWhiteSpace) == std::string::npos) {
    return Wrong(name, "is empty");
  }
  return *text;
}

Result<std::string> Text(const Json& record, const char* field) {
  return AsText(field, record[field]);
}

Result<std::vector<std::string>> Texts(const Json& record, const char* field) {
  const Json& list = record[field];
  if (!list.is_array()) {
    return Wrong(field,
                 fmt::format("is {}, not a list of texts", list.type_name()));
  }
  if (list.size() < 2 || list.size() > kMaxMcChoices) {
    return Wrong(field,
                 fmt::format("has {} entries; 2 to {} can be chosen from",
                             list.size(), kMaxMcChoices));
  }
  std::vector<std::string> texts;
  for (size_t i = 0; i < list.size(); ++i) {
    TC_ASSIGN_OR_RETURN(std::string text,
                        AsText(fmt::format("{}[{}]", field, i), list[i]));
    texts.push_back(std::move(text));
  }
  return texts;
}

// The index of one of `count` choices.
Result<size_t> Index(const Json& record, const char* field, size_t count) {
  const Json& value = record[field];
  const double number = value.is_number() ? value.get<double>() : 0.0;
  // An integer past 64 bits is parsed as a float.
  if (!value.is_number_integer() && std::abs(number) < kTwoTo63) {
    return Wrong(field, fmt::format("is {}, not an index of the choices",
                                    value.is_number() ? "a fraction"
                                                      : value.type_name()));
  }
  if (number < 0 || number >= static_cast<double>(count)) {
    return Wrong(field, fmt::format("is {}; the choices are 0 to {}",
                                    value.dump(), count - 1));
  }
  return static_cast<size_t>(number);
}

// What lies between a context and what follows belongs to what follows, as
// tokenizers have it: the white space that the context ends with, or one space.
std::string CutTrailingSpace(std::string& context) {
  const size_t end = context.find_last_not_of(kWhiteSpace) + 1;
  std::string space = context.substr(end);
  context.resize(end);
  return space.empty() ? " " : space;
}

std::string WithoutLeadingSpace(const std::string& text) {
  return text.substr(text.find_first_not_of(kWhiteSpace));
}

McItem OneContext(size_t gold, std::string context,
                  const std::vector<std::string>& choices) {
  McItem item;
  item.gold = gold;
  const std::string space = CutTrailingSpace(context);
  item.contexts.push_back(std::move(context));
  for (const std::string& choice : choices) {
    item.continuations.push_back(space + WithoutLeadingSpace(choice));
  }
  return item;
}

// ARC's queries begin with "Question:" and leave out what follows.
Result<McItem> ReadQuery(const Json& record) {
  TC_ASSIGN_OR_RETURN(std::string query, Text(record, "query"));
  TC_ASSIGN_OR_RETURN(const auto choices, Texts(record, "choices"));
  TC_ASSIGN_OR_RETURN(const size_t gold, Index(record, "gold", choices.size()));
  const std::string_view text(query.data(),
                              query.find_last_not_of(kWhiteSpace) + 1);
  if (text.starts_with("Question:") && !text.ends_with("Answer:")) {
    query = std::string(text) + "\nAnswer:";
  }
  return OneContext(gold, std::move(query), choices);
}

// Partial evaluation: the choices are in the contexts, and what follows all of
// them is scored.
Result<McItem> ReadContextOptions(const Json& record) {
  McItem item;
  TC_ASSIGN_OR_RETURN(item.contexts, Texts(record, "context_options"));
  TC_ASSIGN_OR_RETURN(const std::string continuation,
                      Text(record, "continuation"));
  TC_ASSIGN_OR_RETURN(item.gold, Index(record, "gold", item.contexts.size()));
  for (std::string& context : item.contexts) {
    const std::string space = CutTrailingSpace(context);
    item.continuations.push_back(space + WithoutLeadingSpace(continuation));
  }
  return item;
}

// True is choice 0, as 0 is entailment where labels are numbers.
Result<McItem> ReadEntailment(const Json& record) {
  TC_ASSIGN_OR_RETURN(const std::string premise, Text(record, "premise"));
  TC_ASSIGN_OR_RETURN(const std::string hypothesis, Text(record, "hypothesis"));
  size_t gold = 0;
  if (record["label"].is_string()) {
    const std::string label = record["label"];
    if (label != "entailment" && label != "not_entailment") {
      return Wrong("label", fmt::format("is {}, not \"entailment\" or "
                                        "\"not_entailment\"",
                                        Quote(label)));
    }
    gold = label == "entailment" ? 0 : 1;
  } else {
    TC_ASSIGN_OR_RETURN(gold, Index(record, "label", 2));
  }
  return OneContext(gold,
                    fmt::format("{}\nQuestion: {} True or False?\nAnswer:",
                                premise, hypothesis),
                    {"True", "False"});
}

// "The cup broke." becomes "The cup broke because": one sentence with either
// choice, which goes on in lower case.
Result<McItem> ReadCause(const Json& record) {
  TC_ASSIGN_OR_RETURN(std::string premise, Text(record, "premise"));
  TC_ASSIGN_OR_RETURN(const std::string question, Text(record, "question"));
  if (question != "cause" && question != "effect") {
    return Wrong("question", fmt::format("is {}, not \"cause\" or \"effect\"",
                                         Quote(question)));
  }
  std::vector<std::string> choices;
  for (const char* field : {"choice1", "choice2"}) {
    TC_ASSIGN_OR_RETURN(const std::string text, Text(record, field));
    std::string choice = WithoutLeadingSpace(text);
    if (choice[0] >= 'A' && choice[0] <= 'Z') choice[0] += 'a' - 'A';
    choices.push_back(std::move(choice));
  }
  TC_ASSIGN_OR_RETURN(const size_t gold, Index(record, "label", 2));
  premise = WithoutLeadingSpace(premise);
  premise.resize(premise.find_last_not_of(kWhiteSpace) + 1);
  if (std::string_view(".!?").find(premise.back()) != std::string_view::npos) {
    premise.pop_back();
  }
  return OneContext(gold,
                    premise + (question == "cause" ? " because" : " therefore"),
                    choices);
}

// PIQA.
Result<McItem> ReadGoal(const Json& record) {
  TC_ASSIGN_OR_RETURN(const std::string goal, Text(record, "goal"));
  TC_ASSIGN_OR_RETURN(std::string first, Text(record, "sol1"));
  TC_ASSIGN_OR_RETURN(std::string second, Text(record, "sol2"));
  TC_ASSIGN_OR_RETURN(const size_t gold, Index(record, "label", 2));
  return OneContext(gold, fmt::format("Question: {}\nAnswer:", goal),
                    {std::move(first), std::move(second)});
}

// WinoGrande, by partial evaluation: what stands in the gap is in the context,
// and the text behind it is scored.
Result<McItem> ReadGap(const Json& record) {
  TC_ASSIGN_OR_RETURN(const std::string sentence, Text(record, "sentence"));
  const size_t gap = sentence.find('_');
  if (gap == std::string::npos) {
    return Wrong("sentence", "has no gap: an \"_\" where the options go");
  }
  const std::string behind = sentence.substr(gap + 1);
  if (behind.find_first_not_of(kWhiteSpace) == std::string::npos) {
    return Wrong("sentence",
                 "has nothing behind its \"_\" that could be scored");
  }
  McItem item;
  for (const char* field : {"option1", "option2"}) {
    TC_ASSIGN_OR_RETURN(const std::string option, Text(record, field));
    std::string context = sentence.substr(0, gap) + option;
    const std::string space = CutTrailingSpace(context);
    item.contexts.push_back(std::move(context));
    item.continuations.push_back(space + WithoutLeadingSpace(behind));
  }
  const Json& answer = record["answer"];
  if (answer != "1" && answer != "2") {
    return Wrong(
        "answer",
        fmt::format("is {}, not the text \"1\" or \"2\"",
                    answer.is_string()   ? Quote(answer.get<std::string>())
                    : answer.is_number() ? answer.dump()
                                         : answer.type_name()));
  }
  item.gold = answer == "1" ? 0 : 1;
  return item;
}

// An index, or the letter of one of `count` choices.
Result<size_t> IndexOrLetter(const Json& record, const char* field,
                             size_t count) {
  const auto* text = record[field].get_ptr<const Json::string_t*>();
  if (text == nullptr) return Index(record, field, count);
  const size_t index =
      text->size() == 1 ? kLetters.find(*text) : kLetters.size();
  if (index < count) return index;
  return Wrong(field, fmt::format("is {}; the choices are \"A\" to \"{}\"",
                                  Quote(*text), kLetters[count - 1]));
}

// MMLU: the choices are in the context, and their letters are scored.
Result<McItem> ReadLettered(const Json& record) {
  TC_ASSIGN_OR_RETURN(std::string context, Text(record, "question"));
  TC_ASSIGN_OR_RETURN(const auto choices, Texts(record, "choices"));
  if (choices.size() > kLetters.size()) {
    return Wrong("choices", fmt::format("has {} entries, more than letters",
                                        choices.size()));
  }
  TC_ASSIGN_OR_RETURN(const size_t gold,
                      IndexOrLetter(record, "answer", choices.size()));
  context = WithoutLeadingSpace(context);
  CutTrailingSpace(context);
  std::vector<std::string> letters;
  for (size_t i = 0; i < choices.size(); ++i) {
    letters.emplace_back(1, kLetters[i]);
    context += fmt::format("\n{}. {}", letters.back(), choices[i]);
  }
  return OneContext(gold, context + "\nAnswer:", letters);
}

const std::array<McSchema, 7>& Schemas() {
  static const std::array<McSchema, 7> schemas = {{
      {"query/choices/gold", ReadQuery},
      {"context_options/continuation/gold", ReadContextOptions},
      {"premise/hypothesis/label", ReadEntailment},
      {"premise/choice1/choice2/question/label", ReadCause},
      {std::string(kGoalSchema), ReadGoal},
      {"sentence/option1/option2/answer", ReadGap},
      {"question/choices/answer", ReadLettered},
  }};
  return schemas;
}

// The first field of the schema that the record lacks; empty if none.
std::string MissingField(const McSchema& schema, const Json& record) {
  size_t begin = 0;
  while (begin < schema.name.size()) {
    const size_t end =
        std::min(schema.name.find('/', begin), schema.name.size());
    const std::string field = schema.name.substr(begin, end - begin);
    if (!record.contains(field)) return field;
    begin = end + 1;
  }
  return {};
}

// PIQA was first published with its labels in a file of their own.
bool LacksLabelsOfAnotherFile(const McSchema& schema, const Json& record) {
  return schema.name == kGoalSchema && MissingField(schema, record) == "label";
}

std::string NamesOfFields(const Json& record) {
  std::vector<std::string> names;
  for (const auto& [name, value] : record.items()) {
    if (names.size() == kMaxFieldsShown) {
      names.emplace_back("...");
      break;
    }
    names.push_back(Quote(name));
  }
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

Result<const McSchema*> FindMcSchema(const Json& record) {
  // Columns of other tasks may be there as nulls. Only where that leaves none,
  // a null is a field with a wrong value.
  Json filled = Json::object();
  for (const auto& [name, value] : record.items()) {
    if (!value.is_null()) filled[name] = value;
  }
  for (const Json* fields : {&std::as_const(filled), &record}) {
    for (const McSchema& schema : Schemas()) {
      if (MissingField(schema, *fields).empty()) return &schema;
    }
  }
  for (const McSchema& schema : Schemas()) {
    if (LacksLabelsOfAnotherFile(schema, filled)) return &schema;
  }
  std::vector<std::string> known;
  for (const McSchema& schema : Schemas()) known.push_back(schema.name);
  return Fail(ErrorCode::kUnsupported,
              "a record of no known schema; its fields are {}; known are {}",
              NamesOfFields(record), fmt::join(known, ", "));
}

Result<McItem> ReadMcItem(const McSchema& schema, const Json& record) {
  if (LacksLabelsOfAnotherFile(schema, record)) {
    return Wrong("label",
                 "is missing: if the labels are in a second file (a number per "
                 "line), each must be written into its record");
  }
  const std::string missing = MissingField(schema, record);
  if (!missing.empty()) {
    return Wrong(missing, fmt::format("is missing; the file's first record is "
                                      "{}",
                                      schema.name));
  }
  return schema.read(record);
}

}  // namespace thermocline::eval

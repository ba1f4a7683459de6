#include "decode/reasoning_splitter.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace thermocline::decode {
namespace {

constexpr text::ReasoningMarks kThink = {"<think>", "</think>"};
constexpr text::ReasoningMarks kChannels = {
    "<|channel|>analysis<|message|>",
    "<|end|>",
    {"<|start|>assistant", "<|channel|>final<|message|>"}};

struct SplitCase {
  std::string_view name;
  text::ReasoningMarks marks;
  bool is_open;
  std::string_view text, reasoning, content;
};

const SplitCase kCases[] = {
    {"both", kThink, false, "<think>\nHm.\n</think>\n\nYes. ", "Hm.", "Yes. "},
    {"opened", kThink, true, "Hm.\n\nSo.</think>Yes", "Hm.\n\nSo.", "Yes"},
    {"no thoughts", kThink, false, " \n a <b> ", "", "a <b> "},
    {"empty thoughts", kThink, false, "<think>\n\n</think>\n\nYes", "", "Yes"},
    {"no end", kThink, true, " Hm. </thin", "Hm. </thin", ""},
    {"no end, white space", kThink, true, " Hm. \n", "Hm.", ""},
    {"a beginning alone", kThink, false, " <thi", "", "<thi"},
    {"almost a mark", kThink, false, "<thinker>a", "", "<thinker>a"},
    {"almost an end", kThink, true, "a</ </thin</think>b", "a</ </thin", "b"},
    {"a mark later on", kThink, false, "a <think>b</think>", "",
     "a <think>b</think>"},
    {"an end alone", kThink, false, "</think>a", "", "</think>a"},
    {"twice", kThink, false, "<think>a</think>\n<think> b </think>c", "a\n\nb",
     "c"},
    {"no marks", {}, false, "\n<think>a</think>", "", "<think>a</think>"},
    {"nothing", kThink, false, "", "", ""},
    {"white space alone", kThink, false, " \n ", "", ""},
    {"channels", kChannels, false,
     "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant"
     "<|channel|>final<|message|>Yes",
     "Hm", "Yes"},
    {"a final channel alone", kChannels, false,
     "<|channel|>final<|message|>Yes", "", "Yes"},
    {"another channel", kChannels, false, "<|channel|>commentary to=f", "",
     "<|channel|>commentary to=f"},
};

// The text in pieces of `size` bytes.
ReasoningSplitter::Split SplitInPieces(const SplitCase& each, size_t size) {
  ReasoningSplitter splitter(each.marks, each.is_open);
  ReasoningSplitter::Split all;
  const auto add = [&all](const ReasoningSplitter::Split& split) {
    all.reasoning += split.reasoning;
    all.content += split.content;
  };
  for (size_t at = 0; at < each.text.size(); at += size) {
    add(splitter.Push(each.text.substr(at, size)));
  }
  add(splitter.Flush());
  return all;
}

TEST(ReasoningSplitterTest, HoweverTheTextIsCut) {
  for (const SplitCase& each : kCases) {
    for (const size_t size : {1, 2, 3, 5, 7, 1000}) {
      const auto split = SplitInPieces(each, size);
      EXPECT_EQ(split.reasoning, each.reasoning) << each.name << ' ' << size;
      EXPECT_EQ(split.content, each.content) << each.name << ' ' << size;
    }
  }
}

TEST(ReasoningSplitterTest, GivesWhatIsCertainAtOnce) {
  ReasoningSplitter splitter(kThink, /*is_open=*/false);
  EXPECT_EQ(splitter.Push("<think>Hm").reasoning, "Hm");
  EXPECT_EQ(splitter.Push(", so").reasoning, ", so");
  EXPECT_EQ(splitter.Push(" <").reasoning, "");
  EXPECT_EQ(splitter.Push("b").reasoning, " <b");
  const auto both = splitter.Push("</think> Yes ");
  EXPECT_EQ(both.reasoning, "");
  EXPECT_EQ(both.content, "Yes ");
  EXPECT_EQ(splitter.Push(" <think>").content, " <think>");
}

}  // namespace
}  // namespace thermocline::decode

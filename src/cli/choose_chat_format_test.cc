#include "cli/choose_chat_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/open_model.h"
#include "cli/test_files.h"
#include "cli/test_main.h"
#include "model/test_model.h"
#include "text/chat_template.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;
using text::jinja::Json;

// A file that is there while this object lives.
class TempFile {
 public:
  TempFile(const std::string& name, const std::string& bytes)
      : path_(TempPath(name)) {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~TempFile() { std::remove(path_.c_str()); }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// What "Hello" becomes in the format that is chosen for a model with the file's
// keys, or the error.
std::string Choice(gguf::TestFile& file, const ChatFormatFlags& flags = {},
                   const Json& kwargs = Json::object(),
                   std::string_view system = "") {
  const TempFile model("choice.gguf", file.Bytes());
  const auto opened = OpenVocabulary(model.path());
  if (!opened.has_value()) return opened.error().message;
  const ChatModel chat_model = {opened->file.get(), opened->tokenizer.get()};
  const auto format = ChooseChatFormat(flags, kwargs, chat_model);
  if (!format.has_value()) return format.error().message;
  const Status checked = CheckChatFormat(flags, **format, chat_model, system);
  if (!checked.has_value()) return checked.error().message;
  const text::ChatMessages messages =
      Json::array({{{"role", "user"}, {"content", "Hello"}}});
  const auto parts = (*format)->Render({.messages = &messages});
  return parts.has_value() ? text::Join(*parts) : parts.error().message;
}

TEST(ChooseChatFormatTest, TheModelsOwnOrTheNamedOne) {
  gguf::TestFile file = model::TestModel();
  file.SetText("tokenizer.chat_template.default",
               "default: {{ messages[0].content }}");
  EXPECT_EQ(Choice(file), "default: Hello");
  file.SetText("tokenizer.chat_template",
               "{% for m in messages %}{{ m.role }}: {{ m.content }}"
               "{% endfor %}{% if add_generation_prompt %}!{% endif %}");
  EXPECT_EQ(Choice(file), "user: Hello!");
  EXPECT_EQ(Choice(file, {.name = "vicuna"}), "USER: Hello ASSISTANT:");
}

TEST(ChooseChatFormatTest, AFileWithToolsAndVariables) {
  gguf::TestFile file = model::TestModel();
  const TempFile source("t.jinja",
                        "\xef\xbb\xbf{{ tools is defined }} {% if tools %}{{ "
                        "tools[0].name }}{% endif %} "
                        "{{ x }} "
                        "{{ messages[0].content }}");
  const TempFile tools("tools.json", "[{\"name\": \"f\"}]");
  const ChatFormatFlags flags = {.template_file = source.path()};
  EXPECT_EQ(Choice(file, flags, {{"x", 7}}), "False  7 Hello");
  EXPECT_EQ(Choice(file, {.template_file = source.path(),
                          .tools_file = tools.path()}),
            "True f  Hello");
  const TempFile none("none.json", "{}");
  EXPECT_THAT(
      Choice(file, {.template_file = source.path(), .tools_file = none.path()}),
      HasSubstr("none.json: the tools are no list"));
  EXPECT_THAT(Choice(file, {.template_file = source.path() + "x"}),
              HasSubstr("t.jinjax"));
}

TEST(ChooseChatFormatTest, NoTemplateListsTheNames) {
  gguf::TestFile file = model::TestModel();
  const std::string none = Choice(file);
  EXPECT_THAT(none, HasSubstr("choice.gguf: has no chat template"));
  EXPECT_THAT(none, HasSubstr("-p"));
  EXPECT_THAT(none, HasSubstr("--chat-template-file"));
  for (const std::string_view name : text::ChatTemplateNames()) {
    EXPECT_THAT(none, HasSubstr(std::string(name)));
  }
  file.SetText("tokenizer.chat_template", "");
  EXPECT_EQ(Choice(file), none);
  file.SetU32("tokenizer.chat_template", 7);
  EXPECT_THAT(Choice(file), HasSubstr("tokenizer.chat_template"));
}

// What cannot be used names the file, why, and the ways out.
TEST(ChooseChatFormatTest, TemplatesThatDoNotDo) {
  struct BadCase {
    const char *source, *message;
  };
  constexpr BadCase kCases[] = {
      {"{% if %}", "its chat template cannot be run: "},
      {"{% include 'a' %}", "its chat template cannot be run: "},
      {"{{ raise_exception('not you') }}",
       "its chat template refuses a message: not you"},
      {"{{ messages[0].content / 0 }}", "its chat template refuses a message"},
      {"{{ 1 // 0 }}{{ messages }}", "its chat template refuses a message"},
      {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
       "its chat template refuses a message"},
      {"{{ bos_token }}", "its chat template writes nothing of a message"}};
  gguf::TestFile file = model::TestModel();
  for (const BadCase& each : kCases) {
    file.SetText("tokenizer.chat_template", each.source);
    const std::string message = Choice(file);
    EXPECT_THAT(message, HasSubstr("choice.gguf: " + std::string(each.message)))
        << each.source;
    EXPECT_THAT(message,
                HasSubstr("; give another by --chat-template-file, or choose a "
                          "format by --chat-template: chatml, "))
        << each.source;
  }
  const TempFile source("bad.jinja", "{% if %}");
  const std::string in_file = Choice(file, {.template_file = source.path()});
  EXPECT_THAT(in_file, HasSubstr("bad.jinja: cannot be run: "));
  EXPECT_EQ(in_file.find("--chat-template"), std::string::npos);
}

TEST(ChooseChatFormatTest, ASystemPromptThatTheTemplateRefuses) {
  gguf::TestFile file = model::TestModel();
  file.SetText("tokenizer.chat_template",
               "{% if messages[0].role == 'system' %}{{ "
               "raise_exception('no system') }}{% endif %}"
               "{{ messages[0].content }}");
  EXPECT_EQ(Choice(file), "Hello");
  EXPECT_THAT(Choice(file, {}, Json::object(), "Be kind"),
              HasSubstr("refuses a system prompt: no system"));
}

TEST(ChooseChatFormatTest, FlagsThatContradictEachOther) {
  EXPECT_NO_THROW(CheckChatFormatFlags({.name = "chatml"}, false));
  EXPECT_NO_THROW(
      CheckChatFormatFlags({.template_file = "a", .tools_file = "b"}, true));
  EXPECT_THROW(
      CheckChatFormatFlags({.name = "chatml", .template_file = "a"}, false),
      CLI::ValidationError);
  EXPECT_THROW(
      CheckChatFormatFlags({.name = "chatml", .tools_file = "a"}, false),
      CLI::ValidationError);
  EXPECT_THROW(CheckChatFormatFlags({.name = "chatml"}, true),
               CLI::ValidationError);
}

}  // namespace
}  // namespace thermocline::cli

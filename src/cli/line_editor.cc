#include "cli/line_editor.h"

#include <histedit.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <utility>

#include "cli/signals.h"
#include "cli/standard_io.h"
#include "cli/stdin_lines.h"
#include "text/utf8.h"

// The leak checker's own functions, null in builds without it.
extern "C" {
[[gnu::weak]] void __lsan_disable();  // NOLINT(readability-identifier-naming)
[[gnu::weak]] void __lsan_enable();   // NOLINT(readability-identifier-naming)
}

namespace thermocline::cli {
namespace {

constexpr int kHistorySize = 1000;
constexpr std::string_view kPasteOn = "\x1b[?2004h";
constexpr std::string_view kPasteOff = "\x1b[?2004l";
constexpr char kPasteBegin[] = "\x1b[200~";
constexpr std::wstring_view kPasteEnd = L"\x1b[201~";

// Keys besides the library's own, as most terminals send them.
constexpr const char* kKeys[][2] = {
    {"^R", "em-inc-search-prev"},
    {"^W", "ed-delete-prev-word"},
    {"^I", "ed-insert"},
    {"\x1b[3~", "ed-delete-next-char"},
    {"\x1b[H", "ed-move-to-beg"},
    {"\x1b[F", "ed-move-to-end"},
    {"\x1b[1;5D", "ed-prev-word"},
    {"\x1b[1;5C", "em-next-word"},
    {kPasteBegin, "thermocline-paste"},
};

// The library converts text by the thread's locale.
class Utf8Locale {
 public:
  explicit Utf8Locale(locale_t locale) : old_(::uselocale(locale)) {}
  ~Utf8Locale() { ::uselocale(old_); }
  Utf8Locale(const Utf8Locale&) = delete;
  Utf8Locale& operator=(const Utf8Locale&) = delete;

 private:
  locale_t old_;
};

// libedit keeps the names of added functions, and libtinfo a description of the
// terminal, for good: a few hundred bytes that are not ours to free.
class LeaksOfLibraries {
 public:
  LeaksOfLibraries() {
    if (__lsan_disable != nullptr) __lsan_disable();
  }
  ~LeaksOfLibraries() {
    if (__lsan_enable != nullptr) __lsan_enable();
  }
  LeaksOfLibraries(const LeaksOfLibraries&) = delete;
  LeaksOfLibraries& operator=(const LeaksOfLibraries&) = delete;
};

// What comes until the end of a paste goes into the line as it is, but for
// control characters other than line ends and tabs.
unsigned char Paste(EditLine* editor, wint_t /*key*/) {
  std::wstring pasted;
  wchar_t c = 0;
  while (!pasted.ends_with(kPasteEnd)) {
    if (::el_wgetc(editor, &c) != 1) return CC_ERROR;
    pasted += c;
  }
  pasted.resize(pasted.size() - kPasteEnd.size());
  std::wstring line;
  for (size_t i = 0; i < pasted.size(); ++i) {
    const bool is_pair = pasted[i] == L'\r' && pasted.substr(i + 1, 1) == L"\n";
    if (is_pair) continue;
    const wchar_t out = pasted[i] == L'\r' ? L'\n' : pasted[i];
    if (out >= L' ' || out == L'\n' || out == L'\t') line += out;
  }
  while (line.ends_with(L'\n')) line.pop_back();
  return ::el_winsertstr(editor, line.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
}

}  // namespace

struct LineEditor::State {
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (editor != nullptr) ::el_end(editor);
    if (history != nullptr) ::history_end(history);
    if (screen != nullptr) std::fclose(screen);
    if (locale != locale_t()) ::freelocale(locale);
  }

  static State& Of(EditLine* editor) {
    State* state = nullptr;
    ::el_get(editor, EL_CLIENTDATA, &state);
    return *state;
  }

  static char* Prompt(EditLine* editor) {
    return const_cast<char*>(ChatPrompt(Of(editor).goes_on));
  }

  // One character of standard input. The library's contract: how many were
  // read, 0 at the end, -1 for an error.
  static int ReadChar(EditLine* editor, wchar_t* out) {
    std::string bytes;
    while (true) {
      int& error = Of(editor).read_error;
      error = EINTR;
      if (!WaitForInput(STDIN_FILENO, [editor] { Of(editor).Redraw(); })) {
        return -1;
      }
      char byte = 0;
      const ssize_t num_read = ::read(STDIN_FILENO, &byte, 1);
      if (num_read < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      error = num_read < 0 ? errno : 0;
      if (num_read <= 0) return static_cast<int>(num_read);
      bytes += byte;
      // Bytes that begin no character are dropped.
      while (!bytes.empty() && text::Utf8CharLength(bytes) == 0 &&
             text::IncompleteUtf8Suffix(bytes) != bytes.size()) {
        bytes.erase(0, 1);
      }
      if (const size_t length = text::Utf8CharLength(bytes); length > 0) {
        *out = static_cast<wchar_t>(text::DecodeUtf8Char(bytes, length));
        return 1;
      }
    }
  }

  void Show(std::string_view text) const {
    std::fwrite(text.data(), 1, text.size(), screen);
    std::fflush(screen);
  }

  void PrepareTerminal() const {
    ::el_set(editor, EL_PREP_TERM, 1);
    Show(kPasteOn);
  }

  // After a stop: a shell has used the terminal meanwhile, as the library does
  // not know until it is told that it left it.
  void Redraw() const {
    ::el_set(editor, EL_PREP_TERM, 0);
    PrepareTerminal();
    ::el_set(editor, EL_REFRESH);
  }

  locale_t locale = {};
  std::FILE* screen = nullptr;
  History* history = nullptr;
  EditLine* editor = nullptr;
  bool goes_on = false;
  int read_error = 0;  // why ReadChar read nothing; 0: it did, or the end
};

std::unique_ptr<LineEditor> LineEditor::Create() {
  const char* term = std::getenv("TERM");
  const bool is_dumb =
      term == nullptr || *term == '\0' || std::string_view(term) == "dumb";
  const int screen_fd = StderrIsTerminal() ? STDERR_FILENO : STDOUT_FILENO;
  if (is_dumb || ::isatty(STDIN_FILENO) != 1 || ::isatty(screen_fd) != 1) {
    return nullptr;
  }
  auto state = std::make_unique<State>();
  state->locale = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", locale_t());
  if (state->locale == locale_t()) return nullptr;
  const Utf8Locale utf8(state->locale);
  state->screen = ::fdopen(::dup(screen_fd), "w");
  state->history = ::history_init();
  if (state->screen == nullptr || state->history == nullptr) return nullptr;
  const LeaksOfLibraries leaks;
  state->editor = ::el_init("thermocline", stdin, state->screen, state->screen);
  if (state->editor == nullptr) return nullptr;
  HistEvent event;
  ::history(state->history, &event, H_SETSIZE, kHistorySize);
  ::history(state->history, &event, H_SETUNIQUE, 1);
  EditLine* editor = state->editor;
  ::el_set(editor, EL_CLIENTDATA, state.get());
  ::el_set(editor, EL_PROMPT, &State::Prompt);
  ::el_set(editor, EL_EDITOR, "emacs");
  ::el_set(editor, EL_HIST, &::history, state->history);
  ::el_set(editor, EL_GETCFN, &State::ReadChar);
  // As typed: a pasted CR LF is one line end.
  ::el_set(editor, EL_SETTY, "-d", "-icrnl", "-inlcr", nullptr);
  ::el_set(editor, EL_ADDFN, "thermocline-paste", "Inserts what is pasted",
           &Paste);
  for (const auto& [key, function] : kKeys) {
    ::el_set(editor, EL_BIND, key, function, nullptr);
  }
  return std::unique_ptr<LineEditor>(new LineEditor(std::move(state)));
}

LineEditor::LineEditor(std::unique_ptr<State> state)
    : state_(std::move(state)) {}
LineEditor::~LineEditor() = default;

Result<Input> LineEditor::Read(bool goes_on) {
  const Utf8Locale utf8(state_->locale);
  state_->goes_on = goes_on;
  TakeContinue();  // nothing is drawn yet
  // Before the prompt: what is typed at once would be echoed twice.
  state_->PrepareTerminal();
  int num_bytes = 0;
  const char* line = ::el_gets(state_->editor, &num_bytes);
  state_->Show(kPasteOff);
  if (line != nullptr) {
    std::string text = line;
    if (text.ends_with('\n')) text.pop_back();
    return Input{InputEvent::kText, std::move(text)};
  }
  const LineInfo* left = ::el_line(state_->editor);
  std::string typed(left->buffer, left->lastchar);
  state_->Show("\n");
  if (state_->read_error == 0) return Input{InputEvent::kEnd, ""};
  if (state_->read_error != EINTR) {
    return Fail(ErrorCode::kIo, "cannot read the terminal: {}",
                std::generic_category().message(state_->read_error));
  }
  if (TakeCtrlC()) return Input{InputEvent::kCtrlC, std::move(typed)};
  return Fail(ErrorCode::kCancelled, "interrupted");
}

void LineEditor::Remember(const std::string& message) {
  const Utf8Locale utf8(state_->locale);
  HistEvent event;
  ::history(state_->history, &event, H_ENTER, message.c_str());
}

}  // namespace thermocline::cli

#include "cli/chat_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "base/quote.h"
#include "base/units.h"
#include "cli/chat_save.h"
#include "cli/remedies.h"
#include "cli/run_report.h"

namespace thermocline::cli {
namespace {

constexpr std::string_view kHelp =
    "/clear      forget the conversation, but for the system prompt\n"
    "/regen      answer the last message again, with another seed\n"
    "/save FILE  write the conversation: as JSON if FILE ends in .json\n"
    "/exit       end, as Ctrl-D does; /quit is the same\n"
    "A line that ends in \\ goes on in the next one; \"\"\" begins and ends a\n"
    "message of several lines. Ctrl-C stops an answer. A message that begins\n"
    "with a slash needs a space in front.";

constexpr std::string_view kCommands[] = {"/clear", "/regen", "/save",
                                          "/help",  "/exit",  "/quit"};

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// A name with spaces may stand in quotes.
std::string_view WithoutQuotes(std::string_view name) {
  const bool is_quoted =
      name.size() >= 2 && name.starts_with('"') && name.ends_with('"');
  return is_quoted ? name.substr(1, name.size() - 2) : name;
}

// The seed of answer number `answer_idx`; the word for "a random one" stays.
uint32_t SeedOf(uint32_t seed, uint32_t answer_idx) {
  constexpr uint32_t kRandom = decode::SamplerOptions().seed;
  if (seed == kRandom) return seed;
  return static_cast<uint32_t>((uint64_t{seed} + answer_idx) % kRandom);
}

class ChatLoop {
 public:
  ChatLoop(decode::Conversation& conversation, const ChatPartner& partner,
           const ChatLoopOptions& options)
      : conversation_(conversation), partner_(partner), options_(options) {}

  Status Run() {
    const auto& first = options_.first_message;
    if (first && !Trim(*first).empty()) TC_RETURN_IF_ERROR(Say(*first));
    bool gave_up_line = false;
    while (!is_over_) {
      TC_ASSIGN_OR_RETURN(const Input input,
                          ReadMessage(*partner_.input, !partner_.is_person));
      if (input.event == InputEvent::kEnd) return {};
      if (input.event == InputEvent::kCtrlC) {
        if (!input.text.empty()) {
          gave_up_line = false;
          continue;
        }
        if (gave_up_line) return {};
        partner_.tell("Ctrl-C again or Ctrl-D ends the chat");
      } else if (!Trim(input.text).empty()) {
        partner_.input->Remember(input.text);
        TC_RETURN_IF_ERROR(input.event == InputEvent::kCommand
                               ? Command(input.text)
                               : Say(input.text));
      }
      gave_up_line = input.event == InputEvent::kCtrlC;
    }
    return {};
  }

 private:
  Status Say(std::string_view text) {
    return Answer([&](const decode::GenerateOptions& generate,
                      const decode::TextFn& on_text,
                      const decode::TextFn& on_reasoning) {
      return conversation_.Say(text, generate, on_text, on_reasoning);
    });
  }

  Status Command(std::string_view line) {
    line = Trim(line);
    const std::string_view name = line.substr(0, line.find_first_of(" \t"));
    const std::string_view argument = Trim(line.substr(name.size()));
    if (std::ranges::find(kCommands, name) == std::end(kCommands)) {
      return Misused(
          fmt::format("{} is no command; /help lists them; for a message put "
                      "a space in front",
                      Quote(name)));
    } else if (name == "/save") {
      return Save(std::string(WithoutQuotes(argument)));
    } else if (!argument.empty()) {
      return Misused(
          fmt::format("{} takes nothing behind it; for a message "
                      "put a space in front",
                      Quote(name)));
    } else if (name == "/clear") {
      conversation_.Clear();
      partner_.tell("the conversation is forgotten");
    } else if (name == "/regen") {
      return Regenerate();
    } else if (name == "/help") {
      partner_.tell(kHelp);
    } else {  // /exit, /quit
      is_over_ = true;
    }
    return {};
  }

  // Nobody who could type it anew reads along where lines come from a pipe.
  Status Misused(const std::string& message) {
    if (!partner_.is_person) {
      return Fail(ErrorCode::kInvalidArgument, "{}", message);
    }
    partner_.tell(message);
    return {};
  }

  Status Save(const std::string& path) {
    const Status saved =
        SaveConversation(conversation_.messages(), path, options_.input_files);
    if (!saved.has_value() && !partner_.is_person) {
      return Annotate("/save", saved.error());
    }
    partner_.tell(
        saved.has_value()
            ? fmt::format("saved {} to {}",
                          Plural(conversation_.messages().size(), "message"),
                          path)
            : fmt::format("not saved: {}", Explain(saved.error())));
    return {};
  }

  Status Regenerate() {
    if (!conversation_.has_answer()) {
      partner_.tell("there is no answer yet");
      return {};
    }
    if (options_.generate.sampler.temperature <= 0.0f) {
      partner_.tell("at temperature 0 an answer is always the same");
    }
    return Answer([&](const decode::GenerateOptions& generate,
                      const decode::TextFn& on_text,
                      const decode::TextFn& on_reasoning) {
      return conversation_.AnswerAgain(generate, on_text, on_reasoning);
    });
  }

  // `generate` is Say or AnswerAgain.
  template <typename GenerateFn>
  Status Answer(GenerateFn generate) {
    decode::GenerateOptions options = options_.generate;
    options.sampler.seed = SeedOf(options.sampler.seed, num_answers_);
    Status shown;
    char last = '\n';
    bool is_thinking = false;
    const auto end_thoughts = [&] {
      if (is_thinking) partner_.think("\n");
      is_thinking = false;
    };
    const auto on_reasoning = [&](std::string_view text) {
      partner_.think(text);
      is_thinking = true;
      return true;
    };
    const auto on_text = [&](std::string_view text) {
      end_thoughts();
      shown = partner_.answer(text);
      last = text.back();
      return shown.has_value();
    };
    Result<decode::GenerateReport> report =
        generate(options, on_text, on_reasoning);
    end_thoughts();
    if (!report.has_value()) return Refused(report.error());
    is_over_ = options_.is_single_turn;
    if (!report->tokens.empty()) ++num_answers_;
    TC_RETURN_IF_ERROR(shown);
    if (last != '\n') TC_RETURN_IF_ERROR(partner_.answer("\n"));
    return Finish(*report);
  }

  // What is left to say about an answer.
  Status Finish(const decode::GenerateReport& report) {
    const engine::Session& session = conversation_.session();
    if (report.reason == decode::StopReason::kCancelled) {
      if (!partner_.take_ctrl_c()) {
        return Fail(ErrorCode::kCancelled, "interrupted");
      }
      if (report.tokens.empty()) {
        partner_.tell(
            "interrupted before the answer began: nothing has changed");
        return {};
      }
    }
    partner_.tell(
        FormatAnswerSummary(report, session.position(), session.context()));
    if (report.reason == decode::StopReason::kContextFull) {
      partner_.tell(
          fmt::format("the context is full, {} of {} positions: "
                      "/clear starts over",
                      session.position(), session.context()));
    }
    return {};
  }

  // A message that does not fit or that the format refuses has changed nothing.
  Status Refused(const Error& error) {
    const bool is_full = error.code == ErrorCode::kResourceExhausted;
    const bool is_refusal = is_full ||
                            error.code == ErrorCode::kInvalidArgument ||
                            error.code == ErrorCode::kUnsupported ||
                            error.code == ErrorCode::kCorrupt;
    if (!partner_.is_person || !is_refusal) return tl::unexpected(error);
    partner_.tell(Explain(error) + (is_full ? "" : "; /clear starts over"));
    return {};
  }

  decode::Conversation& conversation_;
  const ChatPartner& partner_;
  const ChatLoopOptions& options_;
  uint32_t num_answers_ = 0;
  bool is_over_ = false;
};

}  // namespace

Status RunChatLoop(decode::Conversation& conversation,
                   const ChatPartner& partner, const ChatLoopOptions& options) {
  return ChatLoop(conversation, partner, options).Run();
}

}  // namespace thermocline::cli

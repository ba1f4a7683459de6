// Models and sessions as the flags of session_flags.h say.
#ifndef THERMOCLINE_CLI_OPEN_MODEL_H_
#define THERMOCLINE_CLI_OPEN_MODEL_H_

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "cli/session_flags.h"
#include "cli/shared_budget.h"
#include "cli/terminal.h"
#include "engine/session.h"
#include "gguf/gguf.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace thermocline::cli {

// The sessions that a command will make of a model, where they are not what the
// flags say, which come as `from_flags`. At least one.
using SessionsOf = std::function<ModelSessions(
    const model::Config& config, const engine::SessionOptions& from_flags)>;

// The session of a command that looks at all neurons: `from_flags`, in the mode
// of training::ProfileMode, with the memory that an observer needs.
ModelSessions SessionsThatObserve(const model::Config& config,
                                  engine::SessionOptions from_flags);

// Opens the model; an interrupt meanwhile ends the process. What its weights
// need in RAM is refused before they are read if it is more than there is,
// together with the session that `session` asks for, if one is given, or those
// of sessions_of; a larger mapping is a warning. Of what is more than
// session->ram a part stays in the file (engine/left_tensors.h), so much that
// all these sessions have room beside the rest, as DivideBudget gives it.
Result<std::shared_ptr<const model::Model>> OpenModel(
    const ModelFlags& flags, ProgressLine& progress,
    const SessionFlags* session = nullptr, const SessionsOf& sessions_of = {});

// Session::Create, weights that are held in RAM counted too; an interrupt
// meanwhile ends the process.
Result<std::unique_ptr<engine::Session>> CreateSession(
    std::shared_ptr<const model::Model> model,
    const engine::SessionOptions& options);

// A model's vocabulary without the model.
struct Vocabulary {
  std::unique_ptr<const gguf::File> file;
  std::unique_ptr<const text::Tokenizer> tokenizer;
};

// From the file's keys alone: any architecture, no tensors needed. The errors
// name the file; kUnsupported: it has no vocabulary.
Result<Vocabulary> OpenVocabulary(const std::string& path);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_OPEN_MODEL_H_

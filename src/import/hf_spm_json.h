// SentencePiece's BPE as tokenizer.json has it: merges instead of scores.
#ifndef THERMOCLINE_IMPORT_HF_SPM_JSON_H_
#define THERMOCLINE_IMPORT_HF_SPM_JSON_H_

#include <span>

#include "base/status.h"
#include "import/hf_merges.h"
#include "import/json.h"
#include "import/vocab_builder.h"
#include "text/vocab.h"

namespace thermocline::importer {

// Reads normalizer and pre-tokenizer, which together must write U+2581 for
// every space and may put one in front of a text, and do nothing else: sets
// kind, pre and add_space_prefix. One that cuts at spaces once there are none
// any more, as Gemma's do, makes it BPE over characters: SentencePiece's own
// files have no such step. kUnsupported, naming the step.
Status ReadSpmSteps(const JsonFields& tokenizer, text::Vocab& vocab);

// Types of the tokens, which must all be in `draft`, and their scores, or the
// merges where the kind has these, from the model of the same file.
Status CompleteCharVocab(const JsonFields& model, VocabDraft& draft);

// Sets scores with which text/ merges in the order of `merges`, best first: 0
// for what the first of them makes, then -1, -2, ... Tokens whose merges are
// interleaved get one score, since the model gave them one: the leftmost merges
// first. Tokens that no merge makes come last. Returns the pairs of tokens that
// make a third but are no merge (text/ would merge them, what made the file
// would not), and the merges that the scores cannot tell apart: 0 for a file
// that was made from a SentencePiece model.
uint64_t SetScores(std::span<const Merge> merges, VocabBuilder& tokens);

}  // namespace thermocline::importer

#endif  // THERMOCLINE_IMPORT_HF_SPM_JSON_H_

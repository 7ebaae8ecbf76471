// Texts that the model itself writes: heads learn what they will have to guess. Histories come from
// a corpus, replies from the model, half of them greedy. What was written is kept in a file, so
// that an interrupted run goes on where it was.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "corpus/corpus.h"
#include "corpus/features.h"
#include "corpus/written_states.h"
#include "engine/backend.h"
#include "templates/chat_template.h"
#include "text/tokenizer.h"

namespace specbound {

struct SelfGenerateOptions {
  int64_t tokens = 0;             // of replies altogether, end tokens included
  double seconds = 0;             // no reply is begun after that; 0: no limit
  std::function<double()> clock;  // seconds that count; none: those that pass
  // Texts from this one on are earlier ones again: their replies are all sampled, as greedy ones
  // would be the same.
  size_t distinct = std::numeric_limits<size_t>::max();
  float temperature = 0.7f;  // of every other reply; the rest is greedy
  int max_reply = 256;       // tokens; a model that never ends is cut there
  uint64_t seed = 0;
  std::string file;   // "": kept nowhere
  std::string model;  // its fingerprint (model/exit_heads.h), which the file holds too
  std::function<void(const std::string& warning)> warn;  // of damage in it
  std::function<bool(int32_t)> ends_reply;
  // Where the states of replies go as they are written, in the order of the texts; none where an
  // earlier run wrote some. It ends the writing where it is full.
  WrittenStates* states = nullptr;
  // Tokens so far, those of unfinished replies too, and those of replies that are in the file; also
  // called before anything is written.
  std::function<void(int64_t done, int64_t in_file)> progress;
  const std::atomic<bool>* abort = nullptr;
};

// One text a reply: the history as the corpus has it, then the reply, which is learnt. Dialogues
// are gone through in the order given, their turns in turn; of plain text the first tokens are the
// history. A backend that keeps several texts writes as many replies side by side: the result is
// the same. Fewer tokens than asked for when the corpus ends. When aborted, what there is so far.
// Texts in the file that an earlier run with the same arguments began are taken over, but for those
// that are too long for the context; what a kill left of one is cut off. Of a damaged file those
// before the damage are, and FILE.damaged is what it was. Throws Error(kFile), also for a file that
// is something else or another model's, or that another run writes to.
std::vector<TrainingText> self_generate(Backend& backend, const Tokenizer& tokenizer,
                                        const ChatTemplate* chat_template,
                                        std::span<const CorpusText* const> texts,
                                        const SelfGenerateOptions& options);

}  // namespace specbound

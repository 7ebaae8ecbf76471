// What a model is asked where nobody gives texts to learn from: requests of every kind that people
// make, of our own writing. Heads learn the replies that the model writes to them.
#pragma once

#include <vector>

#include "corpus/corpus.h"

namespace specbound {

// Some 2,400 dialogues, each a request and an empty reply, in whose place the model writes its own.
// Kinds follow one another: to be shuffled. Without `chat`, for a model that knows no dialogues,
// each is the beginning of a plain text.
Corpus seed_prompts(bool chat);

}  // namespace specbound

// The memory of replies (drafters/lookup.h) as a file: what a model wrote in earlier conversations,
// as tokens, in $XDG_STATE_HOME/specbound/replies-MODEL (without that variable ~/.local/state). For
// its owner alone; it leaves the machine no more than the history of what was typed does.
#pragma once

#include <cstdint>
#include <string>

#include "drafters/lookup.h"

namespace specbound {

// Of a model by its fingerprint (model/exit_heads.h). Empty where neither XDG_STATE_HOME nor HOME
// says where.
std::string reply_memory_path(const std::string& model_fingerprint);

// Reads what is there: nothing without a file. Throws Error for what is no memory of a model with
// such a vocabulary, and leaves the memory as it was.
void read_reply_memory(const std::string& path, int vocab_size, LookupMemory& memory);
// Throws Error(kFile).
void write_reply_memory(const std::string& path, const LookupMemory& memory);

// Deletes the memories of all models. How many bytes they took.
uint64_t forget_replies();

}  // namespace specbound

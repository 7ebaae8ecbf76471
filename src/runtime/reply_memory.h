// The memory of replies (drafters/lookup.h) as a file: what a model wrote in earlier conversations,
// as tokens, in $XDG_STATE_HOME/specbound/replies-MODEL (without that variable ~/.local/state). For
// its owner alone; it leaves the machine no more than the history of what was typed does.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace specbound {

// Of a model by its fingerprint (model/exit_heads.h). Empty where neither XDG_STATE_HOME nor HOME
// says where.
std::string reply_memory_path(const std::string& model_fingerprint);

// Nothing without a file. Throws Error for what is no memory of a model with such a vocabulary.
std::vector<int32_t> read_replies(const std::string& path, int vocab_size);
// Behind what the file has now, which others may have added to or deleted meanwhile; the newest of
// them all stay. What is no such memory is written anew. Throws Error(kFile).
void add_replies(const std::string& path, int vocab_size, std::span<const int32_t> added);

// Deletes the memories of all models; a chat that is open still adds what it wrote itself. How many
// bytes they took.
uint64_t forget_replies();

}  // namespace specbound

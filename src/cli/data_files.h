// The files of --data, for the commands that make something of texts.
#pragma once

#include <string>
#include <vector>

#include "cli/flags.h"
#include "corpus/corpus.h"

namespace specbound {

// --data; `what` they are for, and what holds where none are given.
Flag& add_data_files(Flags& flags, std::vector<std::string>& paths, const std::string& what,
                     const std::string& otherwise = "");

// Reads them with a bar and says on stderr what they hold. Ctrl-C ends it with `interrupted`.
// Throws what read_corpus() does.
Corpus read_data_files(const std::vector<std::string>& paths, const std::string& interrupted);

}  // namespace specbound

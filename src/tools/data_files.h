// The files of --data, for whoever makes something of texts.
#pragma once

#include <string>
#include <vector>

#include "corpus/corpus.h"

namespace specbound {

// Reads them with a bar and says on stderr what they hold, behind `label`, the flag that they come
// from. Ctrl-C ends it with `interrupted`. Throws what read_corpus() does.
Corpus read_data_files(const std::vector<std::string>& paths, const std::string& interrupted,
                       const char* label = "data");

}  // namespace specbound

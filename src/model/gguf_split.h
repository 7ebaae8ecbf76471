// Models cut into several GGUF files, as llama-gguf-split cuts them: NAME-00001-of-00003.gguf and
// so on. Each file is a whole GGUF with some of the tensors and three keys:
//
//   split.no (from 0)  split.count  split.tensors.count (of all files)
//
// The first file holds all other metadata.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/gguf.h"

namespace specbound {

// `first`, or where it is the first file of a split model, that model, its other files taken from
// beside it. Throws Error: kUnsupported for another file than the first (naming that), kFile for a
// missing one, kFormat where names or keys disagree.
Gguf open_parts(Gguf first);

// Whether a file of this name is a part of a split model, and not its first: the first is opened.
bool is_later_part(std::string_view name);

// By its name: the files of the model of which this is the first, else the one file.
std::vector<std::string> files_of_model(const std::string& path);

// The model of these files, in the order that they should have. Throws Error(kFormat).
Gguf join_parts(std::vector<Gguf> parts);

}  // namespace specbound

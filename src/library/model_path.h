// Which model a command means: the one that --model names (on the command line, in the environment
// or in the settings file, see cli/settings_file.h), or the bundled demo model.
#pragma once

#include <string>
#include <vector>

#include "library/load_watcher.h"

namespace specbound {

// Where the bundled model is looked for, best first: models/ in the folder of the executable and
// the two above it (a build folder inside the source tree), then ../share/specbound/models (an
// installation).
std::vector<std::string> bundled_model_candidates();

// The file that `flag` means: itself where it is there or looks like a path; a model by name
// (model_name.h, or NAME of NAME.gguf in the cache), which is downloaded where it is not there yet;
// empty: the first candidate that exists. Throws Error(kFile) listing what was tried, for a name
// that nobody knows, and for a Hugging Face folder or its weights with what makes a model of it;
// and what pull_model() throws.
std::string find_model(const std::string& flag, const LoadWatcher& watcher = {});
// Whether find_model() takes it for a name, not for a path.
bool is_model_name(const std::string& text);

// `text` as one word of a command that is to be typed into a shell.
std::string shell_word(const std::string& text);
// The command that makes exit heads for a model, to be typed as it is.
std::string train_command(const std::string& model_path);

// "a/b.gguf" -> "a/b.heads.gguf"; a name that does not end in .gguf is kept whole.
std::string sidecar_heads(const std::string& model_path);

}  // namespace specbound

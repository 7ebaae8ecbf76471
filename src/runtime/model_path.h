// Which model a command means: the one that --model names (on the command line, in the environment
// or in the settings file, see cli/settings_file.h), or the bundled demo model. And where its exit
// heads lie: beside it.
#pragma once

#include <string>
#include <vector>

namespace specbound {

// Where the bundled model is looked for, best first: models/ in the folder of the executable and
// the two above it (a build folder inside the source tree), then ../share/specbound/models (an
// installation).
std::vector<std::string> bundled_model_candidates();

// `flag` when not empty, else the first candidate that exists. Throws Error(kFile) listing what was
// tried.
std::string find_model(const std::string& flag);

// `text` as one word of a command that is to be typed into a shell.
std::string shell_word(const std::string& text);
// The command that makes exit heads for a model, to be typed as it is.
std::string train_command(const std::string& model_path);

// "a/b.gguf" -> "a/b.heads.gguf"; a name that does not end in .gguf is kept whole.
std::string sidecar_heads(const std::string& model_path);

}  // namespace specbound

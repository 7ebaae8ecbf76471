// What `specbound info` says of exit heads: of a file of them, and of the one beside a model.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "error.h"
#include "model/gguf.h"

namespace specbound {

// The reason in an Error about this file, without the path in front: a report names it already.
std::string reason_text(const Error& error, const std::string& path);

bool is_heads_file(const Gguf& gguf);

// Of a file of heads: base, heads, shortlist, settings; or the `reason` why it cannot be used.
nlohmann::ordered_json heads_file_json(const std::string& path);
void print_heads_file(const nlohmann::ordered_json& heads);

// Of a model that runs: its fingerprint and the file beside it. `file` is null where there is none;
// `reason` says why one does not fit.
nlohmann::ordered_json model_heads_json(const Gguf& model);
void print_model_heads(const std::string& model_path, const nlohmann::ordered_json& heads);

}  // namespace specbound
